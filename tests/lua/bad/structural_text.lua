-- H = 0; expect 2: the structural parameter S needs a number as default
structural { S = "1/2" }
