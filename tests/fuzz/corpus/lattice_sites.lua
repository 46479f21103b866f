return { sites = { {name='A'}, {name='B', x=1}, {x=3, class='tip'} },
    bonds = { {'A','B'}, {2, 1, {'nn','far'}}, {0, 2, 'd', r=2.5} } }
