-- H = 0; expect 2: unknown name 'load'
load("x = 1")()
