package beats

import (
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// Answers sends servers answers to their beats. One may be lost; the next beat brings another one.
type Answers struct {
	conn *bus.Conn
	log  zerolog.Logger
}

// Removed tells a server that it was forgotten, before the bus cuts it off.
func (a *Answers) Removed(at topology.ServerAddress) {
	a.refuse(at, &apiv1.Refusal{Code: code.ServerRemoved, Message: "the server was forgotten"})
}

func (a *Answers) refuse(to topology.ServerAddress, r *apiv1.Refusal) {
	r.Component = ledger.Registry
	a.send(to, &reportv1.BeatAnswer{Refusal: r})
}

// ask asks a server for a beat at once, and then at an interval.
func (a *Answers) ask(to topology.ServerAddress, every time.Duration) {
	a.send(to, &reportv1.BeatAnswer{Every: durationpb.New(every)})
}

func (a *Answers) send(to topology.ServerAddress, answer *reportv1.BeatAnswer) {
	answer.ServerId = to.Server
	data, err := proto.Marshal(answer)
	if err == nil {
		err = a.conn.Publish(topology.AnswerSubject(to), data)
	}
	if err != nil {
		a.log.Debug().Err(err).Str(logs.Server, to.Server).Msg("answer to a beat not sent")
	}
}
