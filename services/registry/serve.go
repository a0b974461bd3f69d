package registry

import (
	"context"
	"errors"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// serve answers requests until ctx is done.
func (r *Registry) serve(ctx context.Context) error {
	// Enrolment first: the holder of a token from this registry may use it at once.
	stop, err := bus.AnswerPaced(r.cfg.Conn, topology.EnrolSubjects, ledger.Registry, r.admission.enrol,
		r.admission.idle.Open)
	if err != nil {
		return err
	}
	defer stop()
	if stop, err = bus.Answer(r.cfg.Conn, topology.RenewSubjects, ledger.Registry, r.admission.renew); err != nil {
		return err
	}
	defer stop()
	if r.cfg.Lobby {
		if stop, err = bus.AnswerAnybody(r.cfg.Conn, topology.KnockSubjects, r.lobby.knock); err != nil {
			return err
		}
		defer stop()
	}
	api, err := r.cfg.Conn.NewService(ledger.Registry, version.Version,
		registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService"))
	if err != nil {
		return err
	}
	defer api.Close()
	if err := r.answerAll(api); err != nil {
		return err
	}
	r.cfg.Log.Info().Uint64("sequence", r.follower.Position()).Msg("registry serves")
	<-ctx.Done()
	return nil
}

// answerAll registers the methods. About is registered last, because a registry that answers it
// answers everything.
func (r *Registry) answerAll(api *bus.Service) error {
	servers := &serverAPI{
		records: r.records, duties: r.duties, presence: r.presence, admission: r.admission, log: r.cfg.Log,
	}
	rules := &labelRuleAPI{records: r.records, log: r.cfg.Log}
	holds := &holdAPI{records: r.records, log: r.cfg.Log}
	tokens := &tokenAPI{admission: r.admission, log: r.cfg.Log}
	restore := &restoreAPI{records: r.records, unknown: r.unknown, log: r.cfg.Log}
	intents := &intentAPI{records: r.records, lookup: r.lookup}
	defaults := &defaultsAPI{records: r.records}
	instances := &instanceAPI{records: r.records, presence: r.presence, externals: r.externals}
	check := &checkAPI{
		records: r.records, presence: r.presence, duties: r.duties, unknown: r.unknown, externals: r.externals,
	}
	candidates := &candidatesAPI{records: r.records, conn: r.cfg.Conn}
	return errors.Join(
		bus.Handle(api, "ListServers", servers.list),
		bus.Handle(api, "ListCandidates", candidates.list),
		bus.Handle(api, "GetServer", servers.get),
		bus.Handle(api, "ChangeServer", servers.change),
		bus.Handle(api, "ReplaceServer", servers.replace),
		bus.Handle(api, "ForgetServer", servers.forget),
		bus.Handle(api, "QuarantineServer", servers.quarantine),
		bus.Handle(api, "ReleaseServer", servers.release),
		bus.Handle(api, "RevokeServer", servers.revoke),
		bus.Handle(api, "RecordCleanUp", servers.recordCleanUp),
		bus.Handle(api, "CountServers", servers.count),
		bus.Handle(api, "CountInstances", instances.count),
		bus.Handle(api, "InviteServer", r.admission.invite),
		bus.Handle(api, "InviteServers", r.admission.inviteMany),
		bus.Handle(api, "ListLobby", r.lobby.list),
		bus.Handle(api, "AcceptLobby", r.lobby.accept),
		bus.Handle(api, "RejectLobby", r.lobby.reject),
		bus.Handle(api, "SetLabelRule", rules.set),
		bus.Handle(api, "UnsetLabelRule", rules.unset),
		bus.Handle(api, "ListLabelRules", rules.list),
		bus.Handle(api, "SetHold", holds.set),
		bus.Handle(api, "UnsetHolds", holds.unset),
		bus.Handle(api, "ListHolds", holds.list),
		bus.Handle(api, "CreateToken", tokens.create),
		bus.Handle(api, "ListTokens", tokens.list),
		bus.Handle(api, "RevokeToken", tokens.revoke),
		bus.Handle(api, "ListUnknownServers", r.unknown.list),
		bus.Handle(api, "GetRestoreStatus", restore.status),
		bus.Handle(api, "AcceptRestore", restore.accept),
		bus.Handle(api, "ListInstances", instances.list),
		bus.Handle(api, "CheckFleet", check.fleet),
		bus.Handle(api, "ReportExternal", r.externals.report),
		bus.Handle(api, "ListExternals", r.externals.list),
		bus.Handle(api, "GetIntent", intents.get),
		bus.Handle(api, "ListIntents", intents.list),
		bus.Handle(api, "PlanIntent", intents.plan),
		bus.Handle(api, "WithdrawIntent", intents.withdraw),
		r.serveRollouts(api),
		bus.Handle(api, "PlanDefaults", defaults.plan),
		bus.Handle(api, "SetDefault", defaults.set),
		bus.Handle(api, "UnsetDefault", defaults.unset),
		bus.Handle(api, "ListDefaults", defaults.list),
		bus.Handle(api, "MoveServers", defaults.move),
		facts.Serve(api, r.cfg.Conn),
		bus.Handle(api, "SealSecrets", r.records.sealSecrets),
		r.records.serveDeclared(api),
		fold.Serve(api, r.follower, version.Version),
		api.RefuseUnknown(),
	)
}

// serveRollouts registers the methods about rollouts.
func (r *Registry) serveRollouts(api *bus.Service) error {
	rollouts := &rolloutAPI{records: r.records, log: r.cfg.Log}
	past := &rolloutPast{rolloutAPI: rollouts, conn: r.cfg.Conn, turn: make(chan struct{}, 1)}
	return errors.Join(
		bus.Handle(api, "PlanRollout", rollouts.plan),
		bus.Handle(api, "GetRollout", rollouts.get),
		bus.Handle(api, "ListRollouts", rollouts.list),
		bus.Handle(api, "ListRolloutTargets", rollouts.targets),
		bus.Handle(api, "ControlRollout", rollouts.control),
		bus.Handle(api, "ReplayRollout", past.replayed),
		bus.Handle(api, "ForecastRollout", past.forecast),
	)
}
