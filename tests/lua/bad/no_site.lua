-- H = 0; expect 2: must come after site
conserve "Sz"
