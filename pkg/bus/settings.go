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
