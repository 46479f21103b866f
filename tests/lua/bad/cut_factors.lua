-- H = n exchanged between flavours; expect 4: products are made of what is left of their factors; matrices{...}
site(without(fermion{"a", "b"}, "0", "ab"))
conserve "each flavour"
bond("nn", cdag_a(i)*c_b(i)*cdag_b(j)*c_a(j) + hc)
