package bus

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Streams declares, backs up, restores and moves the streams of the bus, over a connection as the user who provisions
// them. It is safe for concurrent use.
type Streams struct {
	conn *Conn
	js   jetstream.JetStream
}

// NewStreams returns a Streams over a connection, whose user must be topology.UserProvision: any other user is denied
// what its methods request. The caller closes the connection.
func NewStreams(conn *Conn) *Streams {
	js, _ := jetstream.NewWithAPIPrefix(conn.nc, conn.api) // only a wrong prefix is an error
	return &Streams{conn, js}
}

// Provision declares streams and consumers, and logs what that takes; see topology.Ensure.
func (s *Streams) Provision(ctx context.Context, b topology.Bus) error {
	p, err := topology.Ensure(ctx, s.js, b)
	if p.From.Newer() {
		s.conn.log.Warn().Uint32("bus", p.From.Number).Uint32("own", topology.Number).
			Msg("a newer program set the bus up; it is left as it is")
	}
	if !p.New {
		for _, step := range p.Steps {
			s.conn.log.Info().Uint32("topology", step.To).Str("step", step.Name).Err(err).Msg(step.What)
		}
		for _, change := range p.Changes {
			s.conn.log.Info().Str("what", change.What).Err(err).Msg(change.How)
		}
	}
	return err
}

// ProvisionCopy brings the copy of the ledger to its bounds, over a connection as the user who provisions it, and logs
// what that takes; see topology.LookCopy.
func (s *Streams) ProvisionCopy(ctx context.Context, c Copying) error {
	p, err := s.Copy(ctx, c)
	if err != nil {
		return err
	}
	err = p.Apply(ctx)
	for _, change := range p.Changes {
		s.conn.log.Info().Str("what", change.What).Err(err).Msg(change.How)
	}
	return err
}

// Copying is a copy of the ledger.
type Copying struct {
	To       *Conn // of the user who provisions the copy
	Bounds   topology.CopyBounds
	Replicas int
}

// Copy compares the copy of the ledger with its bounds, and changes nothing.
func (s *Streams) Copy(ctx context.Context, c Copying) (topology.CopyPlan, error) {
	to, _ := jetstream.NewWithAPIPrefix(c.To.nc, c.To.api) // only a wrong prefix is an error
	return topology.LookCopy(ctx, s.js, to, c.Bounds, c.Replicas)
}

// Topology compares the bus with what Provision would make of it, and changes nothing.
func (s *Streams) Topology(ctx context.Context, b topology.Bus) (topology.Plan, error) {
	return topology.Look(ctx, s.js, b)
}

// Leads returns an error unless the cluster has a leader that answers.
func (s *Streams) Leads(ctx context.Context) error {
	_, err := s.js.AccountInfo(ctx)
	return err
}

// notReady are errors of a bus whose servers have no leader, or which are not all there.
var notReady = []error{
	context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrJetStreamNotEnabled,
	jetstream.ErrJetStreamNotEnabledForAccount,
}

// codeNoPeers is nats-server's code for too few servers for a stream's replicas.
const codeNoPeers = 10005

// NotReady reports whether an error of the bus may go away by itself: its servers start, or elect a leader.
func NotReady(err error) bool {
	if slices.ContainsFunc(notReady, func(e error) bool { return errors.Is(err, e) }) {
		return true
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503 || api.ErrorCode == codeNoPeers
	}
	return fault.Is(err, fault.Unavailable)
}
