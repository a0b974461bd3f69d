package link

import (
	"context"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// hearRefusals passes on the registry's refusals of this server's beats, until ctx is done. Another server can have
// an answer to its own request delivered here; none of those names this server first.
func (l *Link) hearRefusals(ctx context.Context) error {
	stop, err := l.cfg.Conn.Subscribe(topology.RefusedSubject(l.cfg.Address), func(m bus.Message) {
		r := &reportv1.BeatRefused{}
		if bus.Unmarshal(m, r) != nil || r.GetServerId() != l.cfg.Address.Server || l.cfg.Refused == nil {
			return
		}
		l.cfg.Refused(r.GetRefusal())
	})
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return ctx.Err()
}
