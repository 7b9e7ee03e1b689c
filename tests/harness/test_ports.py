from services.local.probe import is_free
from tests.support.ports import LAST, reserve_ports


def test_two_reservations_never_overlap():
    reservations = [reserve_ports(count) for count in (2, 100, 250, 2)]
    taken = [
        port for held, count in zip(reservations, (2, 100, 250, 2), strict=True) for port in range(held.first, held.first + count)
    ]
    for reservation in reservations:
        reservation.release()
    assert len(taken) == len(set(taken))
    assert max(taken) < LAST


def test_reserved_ports_are_free():
    reservation = reserve_ports(5)
    assert all(is_free(port) for port in range(reservation.first, reservation.first + 5))
    reservation.release()
