-- H = 0; expect 5: malformed number near '0.5i'; there is no imaginary unit: kronlat computes with real numbers only
site(spin(1/2))
conserve "Sz"

bond("nn", 0.5i*(Sp(i)*Sm(j) - hc))
