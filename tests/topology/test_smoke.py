import numpy as np
from quantdrift.topology import diagrams as d
def test_x():
    X=np.random.default_rng(0).standard_normal((40,10))
    assert np.abs(d.h0_deaths(X)-d.h0_deaths(X,backend="ripser")).max()<1e-6
