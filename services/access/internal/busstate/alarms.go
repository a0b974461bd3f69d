package busstate

import (
	"fmt"
	"slices"
	"strings"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The causes of alarms.
const (
	ServerAway     = "server-away"
	NoMajority     = "no-majority"
	NoLeader       = "no-leader"
	StreamNoLeader = "stream-without-leader"
	StreamStalled  = "stream-stalled"
	ReplicaAway    = "replica-away"
	ReplicaBehind  = "replica-behind"
	ReplicaStuck   = "replica-stuck"
	ReplicaFailed  = "replica-failed"
	ReplicasDiffer = "replicas-differ"
	FewReplicas    = "few-replicas"
	SyncLater      = "sync-later"
	VersionsDiffer = "versions-differ"
	VersionOld     = "version-old"
	StorageFull    = "storage-nearly-full"
	CannotWrite    = "cannot-write"
	CopyBehind     = "copy-behind"
	CopyIncomplete = "copy-incomplete"
)

const (
	// behindBy is how many operations a replica may be behind without an alarm: one under load is a few behind.
	behindBy = 1000
	// nearlyFull is the share of a server's limit, in percent, from which on its storage is nearly full.
	nearlyFull = 80
	// oldest is the oldest version of nats-server whose known faults lose nothing that Garrison stores.
	oldest = "2.15.2"
)

// finder gathers alarms.
type finder struct{ found []*accessv1.BusAlarm }

func (f *finder) add(cause, of, cure, text string, args ...any) {
	f.found = append(f.found, &accessv1.BusAlarm{Cause: cause, Of: of, Cure: cure, Text: fmt.Sprintf(text, args...)})
}

// faults are what several answers together say of a stream.
type faults struct {
	stalled               bool     // its leader commits nothing
	unfed                 bool     // it is a mirror and takes nothing
	missing               uint64   // messages that are gone from its middle
	stuck, failed, differ []string // servers with a replica that applies nothing, cannot write, or holds something else
}

// cannotWrite adds the servers that store nothing. What they say names files.
func (f *finder) cannotWrite(answers []ServerState) {
	for _, a := range answers {
		if a.WriteError != "" {
			f.add(CannotWrite, a.Server, "make room on its disk, or mend it; then restart a nats-server of your own",
				"the server stores nothing, so nothing is decided: %s", a.WriteError)
		}
	}
}

// alarms lists what is wrong with the bus.
func alarms(answers []ServerState, r *accessv1.GetBusResponse, of func(stream string) faults) []*accessv1.BusAlarm {
	var f finder
	f.cannotWrite(answers)
	f.servers(r.Servers)
	for _, s := range r.Streams {
		is := of(s.Name)
		f.stream(s, len(r.Servers), is.stalled)
		f.replicas(s, is)
		if s.Name == topology.Copy {
			f.copied(s, r.Streams, is)
		}
	}
	return f.found
}

// copied adds what is wrong with the copy of the ledger.
func (f *finder) copied(s *accessv1.BusStream, all []*accessv1.BusStream, is faults) {
	const anew = "restart garrisond, or run garrisond provision as before: the copy is made anew, and auditors " +
		"create their consumers again"
	ledger := slices.IndexFunc(all, func(s *accessv1.BusStream) bool { return s.Name == topology.Ledger })
	if ledger >= 0 && (is.unfed || s.LastSequence+behindBy < all[ledger].LastSequence) {
		f.add(CopyBehind, s.Name, "wait; when the lag does not shrink: "+anew,
			"the copy of the ledger ends at %d, the ledger at %d", s.LastSequence, all[ledger].LastSequence)
	}
	if is.missing > 0 {
		f.add(CopyIncomplete, s.Name, anew, "%d facts are missing between others in the copy of the ledger", is.missing)
	}
}

// renew is how a replica that cannot be trusted is made again.
const renew = "while the other replicas are current: stop the server, move its JetStream directory away, and start " +
	"it; it copies the streams again"

// replicas adds the replicas of a stream that will not be right again by themselves.
func (f *finder) replicas(s *accessv1.BusStream, is faults) {
	for _, server := range is.failed {
		f.add(ReplicaFailed, s.Name, "make sure that its disk works, then "+renew,
			"the replica on %s could not write and takes no further writes, also when the disk works again", server)
	}
	for _, server := range is.stuck {
		f.add(ReplicaStuck, s.Name, "restart server "+server+"; if that does not help, then "+renew,
			"the replica on %s is behind and takes nothing from its leader", server)
	}
	for _, server := range is.differ {
		f.add(ReplicasDiffer, s.Name, "keep a copy of its directory for a report, then "+renew,
			"the replica on %s ends where the others do and holds another number of messages", server)
	}
}

// quorum adds the servers that are away, and whether those that are left can write. A leader is believed to lead for
// some seconds after its majority is gone.
func (f *finder) quorum(all []*accessv1.BusServer) {
	answer, leads := 0, false
	for _, s := range all {
		if s.Answers {
			answer++
			leads = leads || s.Leads
		}
	}
	majority := len(all)/2 + 1
	for _, s := range all {
		if s.Answers {
			continue
		}
		text := "the server does not answer"
		if answer >= majority {
			text += "; nothing is lost, but fewer servers may fail now"
		}
		f.add(ServerAway, s.Name, "start the server, or look at its log and its network", "%s", text)
	}
	switch {
	case answer < majority:
		f.add(NoMajority, "cluster", "start servers that are away",
			"%d of %d servers answer; nothing is written until %d do", answer, len(all), majority)
	case !leads:
		f.add(NoLeader, "cluster", "look at the logs of the servers and the network between them",
			"no server leads the cluster; no stream can be made or changed")
	}
}

func (f *finder) servers(all []*accessv1.BusServer) {
	f.quorum(all)
	var versions []string
	for _, s := range all {
		if !s.Answers {
			continue
		}
		if !slices.Contains(versions, s.Version) {
			versions = append(versions, s.Version)
		}
		if older(s.Version, oldest) {
			f.add(VersionOld, s.Name, "upgrade nats-server, one server after another",
				"the server runs %s; known faults of versions before %s lose data", s.Version, oldest)
		}
		if !s.SyncAlways {
			f.add(SyncLater, s.Name, "set sync_interval: always in the jetstream block of the server",
				"the server acknowledges writes before they are on its disk; a power cut may lose them")
		}
		if all := s.UsedBytes + s.GetFreeBytes(); s.FreeBytes != nil && s.UsedBytes*100 >= all*nearlyFull {
			f.add(StorageFull, s.Name, "make room, and raise max_file_store",
				"%d%% of the storage is used; a full bus refuses writes", s.UsedBytes*100/all)
		}
	}
	if len(versions) > 1 {
		slices.Sort(versions)
		f.add(VersionsDiffer, "cluster", "finish the upgrade", "the servers run different versions: %s",
			strings.Join(versions, ", "))
	}
}

func (f *finder) stream(s *accessv1.BusStream, servers int, stalled bool) {
	switch {
	case s.Leader == "":
		f.add(StreamNoLeader, s.Name, "start the servers that are away: a majority of the replicas is needed",
			"no replica leads the stream; nothing is written to it")
	case stalled:
		f.add(StreamStalled, s.Name, "restart the server that leads it: "+s.Leader,
			"its leader takes writes and commits none")
	}
	if want := min(servers, 3); int(s.Replicas) < want && servers > 2 {
		f.add(FewReplicas, s.Name, "see deploy/docs/cluster.md: From one server to three",
			"the stream has %d of %d replicas; it is lost with its server", s.Replicas, want)
	}
	if s.Leader == "" {
		return // without a leader, nothing is known of the replicas
	}
	for _, c := range s.Copies {
		switch {
		case c.Offline:
			f.add(ReplicaAway, s.Name, "start server "+c.Server, "the replica on %s does not answer", c.Server)
		case !c.Current && c.Lag > behindBy:
			f.add(ReplicaBehind, s.Name, "wait; look at the log of "+c.Server+" when the lag does not shrink",
				"the replica on %s is %d operations behind", c.Server, c.Lag)
		}
	}
}

// older reports whether a version is below another one. One that is not three numbers is not.
func older(version, than string) bool {
	a, known := numbers(version)
	b, _ := numbers(than)
	return known && slices.Compare(a, b) < 0
}

// numbers reads a version of three numbers.
func numbers(version string) (out []int, ok bool) {
	out = make([]int, 3)
	_, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.%d", &out[0], &out[1], &out[2])
	return out, err == nil
}
