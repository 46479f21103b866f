-- H = 0; expect 2: unknown name 'os'
os.exit(0)
