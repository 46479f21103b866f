-- H = J sum S_i.S_i+1 + K sum (S_i.S_i+1)(S_i+2.S_i+3) + Q sum (S_i.S_i+2)(S_i+1.S_i+3)
-- Products of four spins, which couple through the ranks 0, 1 and 2.

structural { S = 1/2 }

site(spin(S))
conserve "Sz"

parameters { J = 1, K = 0.3, Q = 0.2 }

bond("nn", J * S_dot_S(i,j))
run(4, K * S_dot_S(i,j)*S_dot_S(k,l))
run(4, Q * S_dot_S(i,k)*S_dot_S(j,l))
