from muster.cluster.ledger_arrays import Books, Ints
from muster.schedulers.allocation.gangs import Gangs

def nothing_to_gain(books: Books, index: Ints, gangs: Gangs, may_move: bool) -> bool: ...
