"""Addresses, names and indexes: what tells clusters and nodes apart."""

import ipaddress

import pytest

from cluster import addresses, errors, folders


def test_two_clusters_share_no_address_and_no_link() -> None:
    everything = [addresses.Addresses(index) for index in range(addresses.MAX_CLUSTERS)]

    assert len({own.host_link for own in everything}) == addresses.MAX_CLUSTERS
    assert (
        len({own.control_plane for own in everything} | {own.host for own in everything}) == 2 * addresses.MAX_CLUSTERS
    )


def test_no_node_has_the_address_of_the_control_plane_or_of_the_host() -> None:
    own = addresses.Addresses(7)
    nodes = {own.node(number) for number in range(1, addresses.MAX_NODES + 1)}

    assert len(nodes) == addresses.MAX_NODES
    assert not nodes & {own.control_plane, own.host}


def test_a_link_name_is_short_enough_for_the_kernel() -> None:
    assert len(addresses.Addresses(addresses.MAX_CLUSTERS - 1).host_link) <= 15


def test_every_nodes_pods_are_inside_the_pod_subnet() -> None:
    subnets = [ipaddress.IPv4Network(addresses.pod_subnet(number)) for number in range(1, addresses.MAX_NODES + 1)]

    assert all(subnet.subnet_of(ipaddress.IPv4Network(addresses.POD_SUBNET)) for subnet in subnets)
    assert len(set(subnets)) == addresses.MAX_NODES


def test_the_api_service_is_the_first_address_of_the_service_subnet() -> None:
    first = next(ipaddress.IPv4Network(addresses.SERVICE_SUBNET).hosts())

    assert str(first) == addresses.API_SERVICE


@pytest.mark.parametrize("index", [-1, addresses.MAX_CLUSTERS])
def test_an_index_without_a_subnet_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="cluster index"):
        addresses.Addresses(index)


@pytest.mark.parametrize("number", [0, addresses.MAX_NODES + 1])
def test_a_node_number_without_an_address_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="node number"):
        addresses.node_name(number)


def test_a_nodes_name_tells_its_number() -> None:
    assert [addresses.node_number(addresses.node_name(number)) for number in (1, 12)] == [1, 12]


@pytest.mark.parametrize("name", ["node-", "node-0", "node-01", "node-x", "other-1", "node", "node--1", "node-²"])
def test_a_name_that_no_node_has_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="node"):
        addresses.node_number(name)


def test_the_first_free_index_is_taken() -> None:
    assert folders.free_index(set(), "") == 0
    assert folders.free_index({0, 1, None, 3}, "") == 2


def test_a_subnet_that_the_host_routes_elsewhere_is_left_alone() -> None:
    routes = "default via 192.0.2.1 dev eth0\n10.200.0.0/24 dev vpn0\nlocal 10.200.1.254 dev elasticjob1\n"

    assert folders.free_index(set(), routes) == 2


def test_a_subnet_is_not_mistaken_for_one_that_begins_alike() -> None:
    assert folders.free_index({0}, "10.200.11.0/24 dev vpn0") == 1


def test_no_free_subnet_is_an_error_with_its_reason() -> None:
    with pytest.raises(errors.ClusterError, match="taken"):
        folders.free_index(set(range(addresses.MAX_CLUSTERS)), "")


def test_link_addresses_are_all_different_and_locally_administered() -> None:
    every = [own.link_address(last) for own in map(addresses.Addresses, range(3)) for last in (1, 11, 12)]

    assert len(set(every)) == len(every)
    assert all(int(address[:2], 16) & 0b11 == 0b10 for address in every)
