package topology

import (
	"fmt"
	"maps"
	"strconv"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// Number is the number of the topology that this package describes: streams, consumers,
// exports and permissions. It is raised with each change of them, and Steps names the
// change. A bus from before there were numbers has number 0.
const Number = 14

// Floor is the oldest number whose programs may use a bus of this topology. It is raised when a step takes from older
// programs what they use. A step that only adds does not raise it: a program decides nothing from facts that it cannot
// read, and reads none that need a contract beyond the one in force.
const Floor = 3

// Step is one change of the topology, which brings a bus to its number.
type Step struct {
	To   uint32
	Name string
	What string
}

// Steps are the changes, in order.
var Steps = []Step{
	{1, "number-the-bus", "the stream LEDGER carries the topology's number, and whether the bus syncs each write"},
	{2, "name-dead-letters", "the stream QUARANTINE becomes DEADLETTER; its messages move there, and it is deleted"},
	{3, "wall-services", "each service has an account of its own, and guests have one; no service creates consumers"},
	{3, "bound-senders", "dead letters are kept by sender; REPORTS and INTENTS forget message ids at once"},
	{4, "admit-reporters", "the registry writes the noun external; people's account admits reporters"},
	{4, "report-candidates", "servers publish reports of the kind candidates"},
	{4, "open-lobby", "machines without a token have an account; the registry writes the nouns labelrule and lobby"},
	{5, "watch-the-bus", "the service access may read the state of the bus's servers and streams"},
	{6, "stage-rollouts", "the registry writes the noun rollout; people publish intents with the verb rollout"},
	{7, "hold-agents", "the registry writes the noun hold"},
	{7, "grow-a-bus", "the user that provisions the bus may copy streams to another one, and fence them"},
	{8, "block-builds", "the registry writes the noun block"},
	{8, "read-logs", "servers answer requests for the output of agents: the registry opens, people read"},
	{9, "announce-bodies", "the ledger announces facts with their bodies, so that services need not read each one"},
	{10, "admit-approvers", "people's account admits approvers, and operators and admins answer the gates of rollouts"},
	{10, "ring-with-documents", "bells carry the document that was stored, so that its server need not read it"},
	{10, "stream-beats", "beats leave the account of servers as a stream, without a header for each"},
	{10, "stream-chunk-requests", "requests for chunks leave the account of servers as a stream, without a reply"},
	{11, "refuse-beats", "the registry tells a server why its beats do not count"},
	{12, "close-logs-to-viewers", "only operators and admins send requests for the output of agents"},
	{13, "rehearse-versions", "a user that may only read the ledger folds it with a version that does not run yet"},
	{13, "record-the-contract", "the stream LEDGER carries the contract in force, the highest that facts may need"},
	{14, "copy-the-ledger", "an account of auditors takes a copy of the ledger, which any NATS client may read"},
}

// The metadata of the stream LEDGER. It is written last, so a bus that has a number has
// all that belongs to it.
const (
	MetadataNumber = "garrison.topology"
	MetadataFloor  = "garrison.topology_floor"
	MetadataSync   = "garrison.sync"
	// MetadataContract is the contract in force: no fact needs a higher one (package ledger). A new bus has its
	// program's. Who brings a bus forward leaves it, since the program before must be able to read what is recorded.
	MetadataContract = "garrison.contract"
)

// The values of MetadataSync.
const (
	SyncAlways = "always" // each write is on the disk before it is acknowledged
	SyncLazy   = "lazy"
)

// Numbers are the numbers that a bus or an authority carries.
type Numbers struct {
	Number, Floor uint32
	Contract      uint32 // in force on the bus; 0 for an authority
}

// Own returns the numbers of this program.
func Own() Numbers { return Numbers{Number: Number, Floor: Floor} }

// Newer reports whether a newer program set it up, so that this one changes nothing.
func (n Numbers) Newer() bool { return n.Number > Number }

// Check refuses what, which a newer program set up in a way that this one must not use.
func (n Numbers) Check(what string) error {
	var needs string
	switch {
	case n.Floor > Number:
		needs = fmt.Sprintf("%s has topology %d, which needs a program that knows topology %d; "+
			"this one is version %s and knows topology %d", what, n.Number, n.Floor, version.Version, Number)
	case n.Contract > version.Contract:
		needs = fmt.Sprintf("%s has contract %d in force; this program is version %s and knows contract %d",
			what, n.Contract, version.Version, version.Contract)
	default:
		return nil
	}
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{
		Code: code.TopologyTooNew, Component: "topology", Message: needs,
		Try: "the version that set it up",
	})
}

// NumbersOf reads the numbers of a bus from the metadata of its ledger.
func NumbersOf(metadata map[string]string) Numbers {
	read := func(key string) uint32 {
		n, _ := strconv.ParseUint(metadata[key], 10, 32) // a bus without one has number 0
		return uint32(n)
	}
	return Numbers{read(MetadataNumber), read(MetadataFloor), max(read(MetadataContract), 1)}
}

// metadata returns the metadata of a ledger, which may be new, with this topology's own in it.
func metadata(have map[string]string, isNew, syncAlways bool) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	out[MetadataContract] = strconv.Itoa(int(NumbersOf(have).Contract))
	if isNew {
		out[MetadataContract] = strconv.Itoa(version.Contract)
	}
	out[MetadataNumber], out[MetadataFloor] = strconv.Itoa(Number), strconv.Itoa(Floor)
	out[MetadataSync] = SyncLazy
	if syncAlways {
		out[MetadataSync] = SyncAlways
	}
	return out
}

// stepsAfter returns the steps from a number to this topology's.
func stepsAfter(number uint32) []Step {
	var out []Step
	for _, s := range Steps {
		if s.To > number {
			out = append(out, s)
		}
	}
	return out
}
