// Gives a group whose ranks are on several hosts their hosts, and the wire by which it reaches them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "bindings/bindings.h"
#include "wires/tcp.h"
#include "wires/ucx.h"

using namespace nb::literals;

namespace {

using ringtree::Network, ringtree::Proof, ringtree::Wire;

Proof proof_of(const nb::bytes& given) {
  Proof proof;
  if (given.size() != proof.size())
    throw std::invalid_argument("a proof has " + std::to_string(proof.size()) + " bytes, not " +
                                std::to_string(given.size()));
  std::copy_n(static_cast<const std::byte*>(given.data()), proof.size(), proof.begin());
  return proof;
}

template <class Made, class Options>
Network network(std::vector<int> hosts, Options options) {
  if (options.peers.size() != hosts.size()) throw std::invalid_argument("expected an address for every rank");
  // The first group takes the descriptors over; without one they are closed with the network.
  return {
      std::move(hosts),
      [options = std::make_shared<Options>(std::move(options))](int rank, Wire::Sink& sink) -> std::unique_ptr<Wire> {
        return std::make_unique<Made>(rank, std::move(*options), sink);
      }};
}

using TcpPeer = std::tuple<std::string, int, nb::bytes, nb::bytes, nb::bytes, nb::bytes>;

Network tcp(std::vector<int> hosts, int listener, std::uint64_t group, const std::vector<TcpPeer>& peers,
            std::uint32_t connections, bool measures) {
  ringtree::TcpWire::Options options{ringtree::FileDescriptor(listener), group, {}, connections, measures};
  for (auto& [host, port, to_it, from_it, answer_to_it, answer_from_it] : peers)
    options.peers.push_back({host, static_cast<std::uint16_t>(port), proof_of(to_it), proof_of(from_it),
                             proof_of(answer_to_it), proof_of(answer_from_it)});
  return network<ringtree::TcpWire>(std::move(hosts), std::move(options));
}

using UcxPeer = std::tuple<nb::bytes, nb::bytes, nb::bytes>;

// Shared with the wire, which ends it.
struct UcxWorker {
  explicit UcxWorker(const std::string& library) : worker(std::make_shared<ringtree::ucx::Worker>(library)) {}
  nb::bytes address() const { return nb::bytes(worker->address().data(), worker->address().size()); }
  std::shared_ptr<ringtree::ucx::Worker> worker;
};

Network ucx(std::vector<int> hosts, const UcxWorker& worker, const std::vector<UcxPeer>& peers) {
  ringtree::UcxWire::Options options{worker.worker, {}};
  for (auto& [address, to_it, from_it] : peers)
    options.peers.push_back({{address.c_str(), address.size()}, proof_of(to_it), proof_of(from_it)});
  return network<ringtree::UcxWire>(std::move(hosts), std::move(options));
}

}  // namespace

// A wire is a line here, and a line in ringtree.runtime.engines.wires.
void bind_network(nb::module_& m) {
  nb::class_<Network>(m, "Network");
  nb::class_<UcxWorker>(m, "UcxWorker")
      .def(nb::init<const std::string&>(), "library"_a)
      .def_prop_ro("address", &UcxWorker::address);
  m.def("tcp", tcp, "hosts"_a, nb::kw_only(), "listener"_a, "group"_a, "peers"_a, "connections"_a, "measures"_a);
  m.def("ucx", ucx, "hosts"_a, nb::kw_only(), "worker"_a, "peers"_a);
}
