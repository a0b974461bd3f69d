package topology

import "time"

// How long clients and the bus wait for each other. The numbers belong together:
//
//   - Either side of a connection pings the other and drops it once PingsMissed pings are unanswered: a peer that
//     stopped without closing the connection is noticed within three pings. Clients ping every PingEvery, 15 s. The bus
//     pings only those from which nothing came for PingEveryOfBus, 18 s: a client that lives pinged it before. Where
//     the bus has several servers, a client has others to go to, and pings every PingEveryOfSeveral: it leaves within
//     9 s, and a server beats again before its silence counts.
//   - A server that lost the bus waits up to ServerFirstWait, then up to twice as long after each try that failed, up
//     to ServerBackoff. Each wait is random, so that a fleet does not come back at once. The first one is about as long
//     as garrisond takes to start.
//   - Thousands of logins at once wait for the processor of the bus. One that is given up has cost the bus as much as
//     one that succeeds, and is repeated: a short limit would keep a busy bus busy. So both sides wait LoginWithin.
//     A client waits ReachWithin for the network alone, so that another address is tried soon.
//   - So ServerReturns after the bus is back, every server that lives was connected. Until then, and for three beats
//     more, the absence of beats means nothing, see presence in the registry; and no deadline of a task passes.
//   - The servers of the bus hear each other once a second. One that its leader did not hear for ServerOfBusSilent
//     takes the beats of the servers that are connected to it away, as a bus that is away does.
//   - nats-server waits 4 to 9 s for a leader of a stream that is silent; no setting changes that. A request of a
//     consumer for messages that was open at a leader which was killed is never answered: on a bus with several
//     servers it is repeated after PullOfSeveral, soon after the election, and otherwise after PullAlone.
//
// A request has a time-out of its own (bus.DefaultTimeout) and fails at once when the connection breaks. pkg/client
// repeats a read for twice that time, which is longer than a client stays at a server of the bus that stands still.
const (
	PingEvery          = 5 * time.Second
	PingEveryOfBus     = 6 * time.Second
	PingEveryOfSeveral = 3 * time.Second
	PingsMissed        = 2
	ReachWithin        = 5 * time.Second
	LoginWithin        = 20 * time.Second
	ServerFirstWait    = time.Second
	ServerBackoff      = 15 * time.Second
	ServerReturns      = ServerBackoff + LoginWithin
	ServerOfBusSilent  = 3 * time.Second
	PullAlone          = 20 * time.Second
	PullOfSeveral      = 4 * time.Second
)

// HealAfter is how long damage lasts at most before an executor heals it, where it may. It leaves the registry the time
// to count the servers that drift and to brake.
const HealAfter = 10 * time.Second
