-- H = 0; expect 2: site(...) needs a local space
site("spin 1/2")
