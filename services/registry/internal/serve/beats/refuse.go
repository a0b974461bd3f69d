package beats

import (
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// refuseUnknown tells a sender that is not under management why its beats and reports do not count.
func (p *Watch) refuseUnknown(from topology.ServerAddress) {
	r := &apiv1.Refusal{}
	p.records.Follower.Read(func() {
		if p.unknown.managed(from) {
			return
		}
		s, _ := p.records.View.Server(from.Server)
		r.Code, r.Message = whyUnknown(s, from)
	})
	if r.Code != "" {
		p.refuse(from, r)
	}
}

// Removed tells a server that it was forgotten, before the bus cuts it off.
func (p *Watch) Removed(at topology.ServerAddress) {
	p.refuse(at, &apiv1.Refusal{Code: code.ServerRemoved, Message: "the server was forgotten"})
}

// refuse sends a refusal to a server. It may be lost; the next beat brings another one.
func (p *Watch) refuse(to topology.ServerAddress, r *apiv1.Refusal) {
	r.Component = ledger.Registry
	data, err := proto.Marshal(&reportv1.BeatRefused{ServerId: to.Server, Refusal: r})
	if err == nil {
		err = p.conn.Publish(topology.RefusedSubject(to), data)
	}
	if err != nil {
		p.log.Debug().Err(err).Str(logs.Server, to.Server).Msg("refusal not sent")
	}
}
