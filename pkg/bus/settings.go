package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Settings is how one server of the bus keeps what it acknowledges.
type Settings struct {
	Server     string
	Version    string
	SyncAlways bool // each write is on the disk before it is acknowledged
}

// Settings asks the servers of the bus how they are set up; the connection must be of
// the system account. It gives the first answer of each of n servers.
func (c *Conn) Settings(ctx context.Context, n int) ([]Settings, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, requestError(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest("$SYS.REQ.SERVER.PING.VARZ", inbox, nil); err != nil {
		return nil, requestError(err)
	}
	var out []Settings
	for len(out) < n {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask the bus for its settings (%d of %d servers answered): %w", len(out), n, requestError(err))
		}
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
		if err := json.Unmarshal(m.Data, &v); err != nil {
			return nil, fault.New(fault.Unavailable, "read the bus's settings: %w", err)
		}
		s := Settings{Server: v.Data.Name, Version: v.Data.Version}
		if v.Data.JetStream.Config != nil {
			s.SyncAlways = v.Data.JetStream.Config.SyncAlways
		}
		out = append(out, s)
	}
	return out, nil
}
