// Gives a group whose ranks are on several hosts their hosts, and the wire by which it reaches them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "bindings/bindings.h"
#include "wires/tcp.h"

using namespace nb::literals;

namespace {

using Address = std::tuple<std::string, int, nb::bytes, nb::bytes>;

ringtree::TcpWire::Proof proof_of(const nb::bytes& given) {
  ringtree::TcpWire::Proof proof;
  if (given.size() != proof.size())
    throw std::invalid_argument("a proof has " + std::to_string(proof.size()) + " bytes, not " +
                                std::to_string(given.size()));
  std::copy_n(static_cast<const std::byte*>(given.data()), proof.size(), proof.begin());
  return proof;
}

ringtree::Network tcp(std::vector<int> hosts, int listener, std::uint64_t group, const std::vector<Address>& peers,
                      std::uint32_t connections) {
  ringtree::TcpWire::Options options{listener, group, {}, connections};
  for (auto& [host, port, to_it, from_it] : peers)
    options.peers.push_back({host, static_cast<std::uint16_t>(port), proof_of(to_it), proof_of(from_it)});
  if (options.peers.size() != hosts.size()) throw std::invalid_argument("expected an address for every rank");
  return {std::move(hosts), [options](int rank, ringtree::Wire::Sink& sink) -> std::unique_ptr<ringtree::Wire> {
            return std::make_unique<ringtree::TcpWire>(rank, options, sink);
          }};
}

}  // namespace

void bind_network(nb::module_& m) {
  nb::class_<ringtree::Network>(m, "Network");
  m.def("tcp", tcp, "hosts"_a, nb::kw_only(), "listener"_a, "group"_a, "peers"_a, "connections"_a);
}
