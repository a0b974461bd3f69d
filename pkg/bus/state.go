package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Settings is how one server of the bus keeps what it acknowledges.
type Settings struct {
	Server     string
	Version    string
	SyncAlways bool // each write is on the disk before it is acknowledged
}

// Settings requests the settings of the servers of the bus, and returns the first answer of each of n servers.
func (s *System) Settings(ctx context.Context, n int) ([]Settings, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var out []Settings
	err := s.askServers(ctx, topology.SystemSettings, nil, func(answer []byte) (bool, error) {
		var v struct {
			Data struct {
				Name      string `json:"server_name"`
				Version   string `json:"version"`
				JetStream struct {
					Config *struct {
						SyncAlways bool `json:"sync_always"`
					} `json:"config"`
				} `json:"jetstream"`
			} `json:"data"`
		}
		if err := json.Unmarshal(answer, &v); err != nil {
			return false, fault.New(fault.Unavailable, "read the bus's settings: %w", err)
		}
		one := Settings{Server: v.Data.Name, Version: v.Data.Version}
		if v.Data.JetStream.Config != nil {
			one.SyncAlways = v.Data.JetStream.Config.SyncAlways
		}
		out = append(out, one)
		return len(out) >= n, nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask the bus for its settings (%d of %d servers answered): %w", len(out), n, err)
	}
	return out, nil
}

// ServerAnswer is what one server of the bus answers to a request to all, in the words of nats-server.
type ServerAnswer struct {
	Server  Server
	Version string // of nats-server
	Data    []byte // JSON
}

// StreamsOfServers returns what each of n servers of the bus keeps of an account's streams, as nats-server's JSZ. After
// serversWithin it returns the answers it has; the error is Unavailable without any.
func (s *System) StreamsOfServers(ctx context.Context, accountKey string, n int) ([]ServerAnswer, error) {
	return s.askWithin(ctx, topology.SystemStreams,
		map[string]any{"account": accountKey, "streams": true, "config": true}, n)
}

// GroupsOfServers returns what each of n servers of the bus knows of the groups of replicas of an account, as
// nats-server's RAFTZ. It ends as StreamsOfServers does.
func (s *System) GroupsOfServers(ctx context.Context, accountKey string, n int) ([]ServerAnswer, error) {
	return s.askWithin(ctx, topology.SystemGroups, map[string]any{"account": accountKey}, n)
}

// HealthOfServers returns what each of n servers of the bus says of its own health, as nats-server's HEALTHZ. It ends
// as StreamsOfServers does.
func (s *System) HealthOfServers(ctx context.Context, n int) ([]ServerAnswer, error) {
	return s.askWithin(ctx, topology.SystemHealth, map[string]any{"details": true}, n)
}

// askWithin sends a request to all servers of the bus and returns the answers of n of them, as far as they come within
// serversWithin.
func (s *System) askWithin(
	ctx context.Context, subject string, query map[string]any, n int,
) (out []ServerAnswer, err error) {
	body, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, serversWithin)
	defer cancel()
	err = s.askServers(ctx, subject, body, func(answer []byte) (bool, error) {
		var a struct {
			Server struct {
				Server
				Version string `json:"ver"`
			} `json:"server"`
			Data  json.RawMessage `json:"data"`
			Error *struct {
				Description string `json:"description"`
			} `json:"error"`
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			return false, fault.New(fault.Unavailable, "read the answer: %w", err)
		}
		if a.Error != nil {
			return false, fault.New(fault.Unavailable, "server %s of the bus: %s", a.Server.Name, a.Error.Description)
		}
		out = append(out, ServerAnswer{a.Server.Server, a.Server.Version, a.Data})
		return len(out) >= n, nil
	})
	if err != nil && len(out) == 0 {
		return nil, fmt.Errorf("ask the servers of the bus on %s: %w", subject, err)
	}
	return out, nil
}
