"""`make hunt`: fresh seeds of every kind of simulation, as long as asked, beside other work.

It may import all kinds of simulation; none of them imports it.
"""
