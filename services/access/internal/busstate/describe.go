package busstate

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
)

// Describe describes the bus, from the answer of each server that answers. suspects are what does not move.
func Describe(answers []ServerState, suspects Suspects) *accessv1.GetBusResponse {
	r := &accessv1.GetBusResponse{Servers: servers(answers)}
	of := map[string][]kept{}
	for _, a := range answers {
		for _, s := range a.Streams {
			of[s.Name] = append(of[s.Name], kept{a.Server, s})
		}
	}
	groups := map[string]string{}
	for name, all := range of {
		r.Streams = append(r.Streams, stream(name, all))
		for _, k := range all {
			groups[name] = cmp.Or(groups[name], k.Group)
		}
	}
	slices.SortFunc(r.Streams, func(a, b *accessv1.BusStream) int { return cmp.Compare(a.Name, b.Name) })
	r.Alarms = alarms(answers, r, func(stream string) faults {
		group := groups[stream]
		return faults{
			stalled: suspects.Stalled[group], stuck: suspects.Stuck[group], failed: suspects.Failed[group],
			differ: differ(of[stream]), unfed: unfed(of[stream]), missing: missing(of[stream]),
		}
	})
	return r
}

// kept is a stream as one server keeps it.
type kept struct {
	server string
	StreamState
}

// servers lists the servers that answer, and those that these know of.
func servers(answers []ServerState) []*accessv1.BusServer {
	by := map[string]*accessv1.BusServer{}
	leader := ""
	for _, a := range answers {
		if a.Cluster == nil {
			continue
		}
		leader = cmp.Or(leader, a.Cluster.Leader)
		for _, p := range a.Cluster.Servers {
			by[p.Name] = &accessv1.BusServer{Name: p.Name}
		}
	}
	if leader != "" {
		by[leader] = &accessv1.BusServer{Name: leader}
	}
	for _, a := range answers {
		s := &accessv1.BusServer{
			Name: a.Server, Version: a.Version, Answers: true, SyncAlways: a.SyncAlways, UsedBytes: a.Used,
			Leads: a.Cluster == nil || leader == a.Server,
		}
		if a.Limit > 0 {
			s.FreeBytes = proto.Uint64(a.Limit - min(a.Limit, a.Used))
		}
		by[s.Name] = s
	}
	var out []*accessv1.BusServer
	for _, s := range by {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *accessv1.BusServer) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// unfed reports whether the leader of a mirror hears nothing of what it mirrors.
func unfed(all []kept) bool {
	return slices.ContainsFunc(all, func(k kept) bool { return k.Unfed && (k.Leader == k.server || len(all) == 1) })
}

// missing returns how many messages are gone from the middle of a stream.
func missing(all []kept) (n uint64) {
	for _, k := range all {
		n = max(n, k.Missing)
	}
	return n
}

// stream describes one stream. What the leader says of the others counts, and else what a replica says.
func stream(name string, all []kept) *accessv1.BusStream {
	best := all[0]
	for _, k := range all {
		if k.Leader == k.server || best.Leader == "" && k.Leader != "" {
			best = k
		}
		if best.Leader == best.server {
			break
		}
	}
	s := &accessv1.BusStream{
		Name: name, Replicas: uint32(max(best.Replicas, 1)), Leader: best.Leader, Messages: best.Messages,
		Bytes: best.Bytes, LastSequence: best.LastSequence, PersistsLater: best.Async,
	}
	copies := map[string]*accessv1.BusReplica{}
	for _, p := range best.Peers {
		copies[p.Name] = &accessv1.BusReplica{Server: p.Name, Current: p.Current, Offline: p.Offline, Lag: p.Lag}
	}
	for _, k := range all {
		c := copies[k.server]
		if c == nil {
			c = &accessv1.BusReplica{Server: k.server, Current: k.server == best.Leader}
			copies[k.server] = c
		}
		c.LastSequence = k.LastSequence
	}
	for _, c := range copies {
		s.Copies = append(s.Copies, c)
	}
	slices.SortFunc(s.Copies, func(a, b *accessv1.BusReplica) int { return cmp.Compare(a.Server, b.Server) })
	return s
}

// differ returns the servers whose copy of a stream from which nothing is ever deleted ends where most others do, and
// holds another number of messages.
func differ(all []kept) (names []string) {
	for _, k := range all {
		agree, others := 0, 0
		for _, other := range all {
			switch {
			case other.server == k.server || other.LastSequence != k.LastSequence:
			case other.Messages == k.Messages:
				agree++
			default:
				others++
			}
		}
		if k.Whole && others > agree {
			names = append(names, k.server)
		}
	}
	slices.Sort(names)
	return names
}
