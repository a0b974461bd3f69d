// Package busstate describes the bus and finds what is wrong with it, from what its servers answer. It is pure.
package busstate

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// ServerState is what one server of the bus reports about itself and the streams of an account.
type ServerState struct {
	Server     string // its name
	Version    string
	SyncAlways bool   // each write is on the disk before it is acknowledged
	Used       uint64 // bytes of the streams' files
	Limit      uint64 // bytes that they may have; 0 when only the disk limits them
	WriteError string // why it stores nothing; empty while it does
	Cluster    *ClusterState
	Streams    []StreamState
}

// ClusterState is how a server of a cluster sees it.
type ClusterState struct {
	Leader  string // of the servers; empty without one
	Servers []Peer // the servers but the leader, or all of them without a leader
}

// StreamState is a stream as one server keeps it.
type StreamState struct {
	Name         string
	Replicas     int
	Whole        bool // nothing is ever deleted from it
	Async        bool // acknowledged before it is on the disk
	Messages     uint64
	Bytes        uint64
	LastSequence uint64
	Missing      uint64 // how many messages are gone from its middle
	Unfed        bool   // it is a mirror, and takes nothing of what it mirrors; right in the answer of the leader
	Leader       string // as the server knows it; empty without one
	Group        string // of the replicas, as in Progress; empty on a bus with one server
	Peers        []Peer // the replicas but the leader's; right in the answer of the leader
}

// Add adds the streams that the same server keeps of another account.
func (s *ServerState) Add(others []ServerState) {
	for _, o := range others {
		if o.Server == s.Server {
			s.Streams = append(s.Streams, o.Streams...)
		}
	}
}

// EndOf returns the last sequence that a server has of a stream; 0 without one.
func EndOf(all []ServerState, stream string) (end uint64) {
	for _, s := range all {
		for _, is := range s.Streams {
			if is.Name == stream {
				end = max(end, is.LastSequence)
			}
		}
	}
	return end
}

// Unfed notes that a mirror takes nothing, wherever it is kept.
func Unfed(all []ServerState, stream string) {
	for _, s := range all {
		for n := range s.Streams {
			s.Streams[n].Unfed = s.Streams[n].Unfed || s.Streams[n].Name == stream
		}
	}
}

// Peer is another server as the leader sees it.
type Peer struct {
	Name    string `json:"name"`
	Current bool   `json:"current"` // was heard recently, and is not behind
	Offline bool   `json:"offline"` // was not heard recently
	Lag     uint64 `json:"lag"`     // how many operations it is behind
}

// endless is a limit above any disk: a configuration names one because nats-server would set one itself.
const endless = 1 << 49

// Read reads what a server with a version answers about the streams of one account.
func Read(server, version string, data []byte) (ServerState, error) {
	var a struct {
		Config struct {
			MaxStore   int64 `json:"max_storage"`
			SyncAlways bool  `json:"sync_always"`
		} `json:"config"`
		Used uint64 `json:"storage"`
		Meta *struct {
			Leader   string `json:"leader"`
			Replicas []Peer `json:"replicas"`
		} `json:"meta_cluster"`
		Accounts []struct {
			Streams []streamDetail `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return ServerState{}, fault.New(fault.Unavailable, "read the answer of server %s of the bus: %w", server, err)
	}
	s := ServerState{Server: server, Version: version, SyncAlways: a.Config.SyncAlways, Used: a.Used}
	if limit := a.Config.MaxStore; limit > 0 && limit < endless {
		s.Limit = uint64(limit)
	}
	if a.Meta != nil {
		s.Cluster = &ClusterState{Leader: a.Meta.Leader, Servers: a.Meta.Replicas}
	}
	for _, account := range a.Accounts {
		for _, d := range account.Streams {
			s.Streams = append(s.Streams, d.state())
		}
	}
	return s, nil
}

// unfedAfter is how long a mirror may hear nothing: what it mirrors speaks every second.
const unfedAfter = 30 * time.Second

// streamDetail is a stream in the answer of a server.
type streamDetail struct {
	Name   string `json:"name"`
	Config struct {
		Replicas int    `json:"num_replicas"`
		Persist  string `json:"persist_mode"`
		Keep     bool   `json:"deny_delete"`
		MaxAge   int64  `json:"max_age"`
		MaxBytes int64  `json:"max_bytes"`
	} `json:"config"`
	State struct {
		Messages     uint64 `json:"messages"`
		Bytes        uint64 `json:"bytes"`
		LastSequence uint64 `json:"last_seq"`
		Missing      uint64 `json:"num_deleted"`
	} `json:"state"`
	Mirror *struct {
		Active time.Duration `json:"active"` // since it heard the last time; negative when it never did
	} `json:"mirror"`
	Cluster struct {
		Group    string `json:"raft_group"`
		Leader   string `json:"leader"`
		Replicas []Peer `json:"replicas"`
	} `json:"cluster"`
}

func (d streamDetail) state() StreamState {
	return StreamState{
		Name: d.Name, Replicas: d.Config.Replicas, Async: d.Config.Persist == "async",
		Whole: d.Config.Keep && d.Config.MaxAge == 0 && d.Config.MaxBytes <= 0, Messages: d.State.Messages,
		Bytes: d.State.Bytes, LastSequence: d.State.LastSequence, Leader: d.Cluster.Leader, Group: d.Cluster.Group,
		Missing: d.State.Missing, Unfed: d.Mirror != nil && (d.Mirror.Active < 0 || d.Mirror.Active > unfedAfter),
		Peers: d.Cluster.Replicas,
	}
}

// writeError is in what nats-server says of a stream that failed to write, and refuses every later write.
const writeError = "write error: "

// ReadHealth reads what the server answers about its own health.
func (s *ServerState) ReadHealth(data []byte) error {
	var a struct {
		Errors []struct {
			Error string `json:"error"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return fault.New(fault.Unavailable, "read the health of server %s of the bus: %w", s.Server, err)
	}
	for _, e := range a.Errors {
		if _, why, found := strings.Cut(e.Error, writeError); found {
			s.WriteError = why
		}
	}
	return nil
}
