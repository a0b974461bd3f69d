package registry

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/version"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// serve answers requests until ctx is done.
func (r *Registry) serve(ctx context.Context) error {
	// Joins first: whoever gets a token from this registry may use it at once.
	stop, err := bus.Answer(r.Conn, "garrison.enrol.*.*", ledger.Registry, r.enrol)
	if err != nil {
		return err
	}
	defer stop()
	s, err := r.Conn.NewService(ledger.Registry, version.Version,
		registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService"))
	if err != nil {
		return err
	}
	defer s.Close()
	err = errors.Join(
		handle(s, "ListServers", r.listServers), handle(s, "GetServer", r.getServer),
		handle(s, "InviteServer", r.inviteServer), handle(s, "ChangeServer", r.changeServer),
		handle(s, "ForgetServer", r.forgetServer), handle(s, "RecordCleanUp", r.recordCleanUp),
		handle(s, "ListUnknownServers", r.listUnknownServers), handle(s, "GetRestoreStatus", r.getRestoreStatus),
		handle(s, "AcceptRestore", r.acceptRestore),
		handle(s, "ListInstances", r.listInstances), handle(s, "GetIntent", r.getIntent),
		handle(s, "PlanIntent", r.planIntent),
		handle(s, "ListIntents", r.listIntents), handle(s, "WithdrawIntent", r.withdrawIntent),
		handle(s, "ListAgents", r.listAgents), handle(s, "CreateAgent", r.createAgent),
		handle(s, "ChangeAgent", r.changeAgent), handle(s, "DeleteAgent", r.deleteAgent),
		handle(s, "ListApplications", r.listApplications), handle(s, "CreateApplication", r.createApplication),
		handle(s, "ChangeApplication", r.changeApplication), handle(s, "DeleteApplication", r.deleteApplication),
		handle(s, "ListEnvironments", r.listEnvironments), handle(s, "CreateEnvironment", r.createEnvironment),
		handle(s, "ChangeEnvironment", r.changeEnvironment), handle(s, "DeleteEnvironment", r.deleteEnvironment),
		fold.Serve(s, r.follower, version.Version), s.RefuseUnknown(), // last: who answers About answers everything
	)
	if err != nil {
		return err
	}
	r.Log.Info().Uint64("sequence", r.follower.Position()).Msg("registry serves")
	<-ctx.Done()
	return nil
}

func handle[Q, R proto.Message](s *bus.Service, method string, f func(context.Context, bus.Caller, Q) (R, error)) error {
	return bus.Handle(s, method, f)
}
