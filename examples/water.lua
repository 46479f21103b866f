-- A job: water in the 6-31G basis with a frozen core, single and double excitations.
-- Run in the folder above: kronlat run examples/water.lua
return { command = "ci", fcidump = "tests/data/h2o-631g-fc.fcidump", space = "cisd", roots = 3 }
