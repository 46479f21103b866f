-- A job: the lowest state with Sz = 1 of a ladder, and from where the spin gap comes together with --charge
-- Sz=0.
-- Run: kronlat run examples/gap.lua; any option typed behind the file wins over it.
return {
    model = "heisenberg",
    lattice = "ladder:16x2",
    charge = { Sz = 1 },
    accuracy = 1e-7,
    measure = { "Sz" },
}
