-- H = 0; expect 2: unknown name 'io'
io.write("x")
