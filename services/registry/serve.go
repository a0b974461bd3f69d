package registry

import (
	"context"
	"errors"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/admission"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/agentlogs"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/blocks"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/declarations"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/holds"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/instances"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/intents"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/labelrules"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reports"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/rollouts"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/servers"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// serve answers requests until ctx is done.
func (r *Registry) serve(ctx context.Context) error {
	// Enrolment first: the holder of a token from this registry may use it at once.
	stop, err := bus.AnswerPaced(r.cfg.Conn, topology.EnrolSubjects, ledger.Registry, r.admission.Enrol,
		r.admission.Idle.Open)
	if err != nil {
		return err
	}
	defer stop()
	if stop, err = bus.Answer(r.cfg.Conn, topology.RenewSubjects, ledger.Registry, r.admission.Renew); err != nil {
		return err
	}
	defer stop()
	if r.cfg.Lobby {
		if stop, err = bus.AnswerAnybody(r.cfg.Conn, topology.KnockSubjects, r.lobby.Knock); err != nil {
			return err
		}
		defer stop()
	}
	return r.follower.Serve(ctx, version.Version,
		registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService"), r.answerAll)
}

// answerAll registers the methods.
func (r *Registry) answerAll(api *bus.Service) error {
	blocking := blocks.NewAPI(r.records, r.cfg.Log)
	tokens := admission.NewTokens(r.admission, r.cfg.Log)
	restore := servers.NewRestores(r.records, r.unknown, r.cfg.Log)
	decisions := intents.NewAPI(r.records, r.lookup)
	defaults := environments.NewDefaults(r.records, r.defaults)
	rows := instances.NewAPI(r.records, r.presence, r.externals)
	check := instances.Checks{
		Records: r.records, Presence: r.presence, Duties: r.duties, Unknown: r.unknown, Externals: r.externals,
		Defaults: r.defaults,
	}
	candidates := reports.NewCandidates(r.records, r.cfg.Conn)
	return errors.Join(
		r.serveServers(api),
		bus.Handle(api, "ListCandidates", candidates.List),
		bus.Handle(api, "OpenLog", agentlogs.NewAPI(r.records, r.presence, r.cfg.Conn, r.cfg.Log).Open),
		bus.Handle(api, "CountInstances", rows.Count),
		bus.Handle(api, "ListAvailable", rows.Available),
		bus.Handle(api, "InviteServer", r.admission.Invite),
		bus.Handle(api, "InviteServers", r.admission.InviteMany),
		bus.Handle(api, "ListLobby", r.lobby.List),
		bus.Handle(api, "AcceptLobby", r.lobby.Accept),
		bus.Handle(api, "RejectLobby", r.lobby.Reject),
		bus.Handle(api, "AddBlocks", blocking.Add),
		bus.Handle(api, "CreateToken", tokens.Create),
		bus.Handle(api, "ListTokens", tokens.List),
		bus.Handle(api, "RevokeToken", tokens.Revoke),
		bus.Handle(api, "ListUnknownServers", r.unknown.List),
		bus.Handle(api, "ListWriters", r.listWriters),
		bus.Handle(api, "GetRestoreStatus", restore.Status),
		bus.Handle(api, "AcceptRestore", restore.Accept),
		bus.Handle(api, "ListInstances", rows.List, instances.Reuse),
		bus.Handle(api, "CheckFleet", check.Fleet),
		bus.Handle(api, "ReportExternal", r.externals.Report),
		bus.Handle(api, "GetIntent", decisions.Get),
		bus.Handle(api, "ListIntents", decisions.List),
		bus.Handle(api, "PlanIntent", decisions.Plan),
		bus.Handle(api, "WithdrawIntent", decisions.Withdraw),
		r.serveRollouts(api),
		bus.Handle(api, "PlanDefaults", defaults.Plan),
		bus.Handle(api, "SetDefault", defaults.Set),
		bus.Handle(api, "UnsetDefault", defaults.Unset),
		bus.Handle(api, "ListDefaults", defaults.List),
		bus.Handle(api, "MoveServers", defaults.Move),
		facts.Serve(api, r.cfg.Conn),
		bus.Handle(api, "SealSecrets", r.records.SealSecrets),
		table.New(r.records, r.cfg.Log, r.nouns(blocking)...).Serve(api),
	)
}

// nouns returns how the records that operators keep are kept.
func (r *Registry) nouns(b *blocks.API) []table.Kept {
	return append(declarations.Nouns(r.records), labelrules.Noun(r.records), holds.Noun(r.records), b.Noun())
}

// serveServers registers the methods about servers.
func (r *Registry) serveServers(api *bus.Service) error {
	requests := servers.NewAPI(r.records, r.duties, r.presence, r.admission, r.cfg.Log)
	requests.Refused = r.defaults.Refused
	return errors.Join(
		bus.Handle(api, "ListServers", requests.List),
		bus.Handle(api, "GetServer", requests.Get),
		bus.Handle(api, "ChangeServer", requests.Change),
		bus.Handle(api, "ReplaceServer", requests.Replace),
		bus.Handle(api, "ForgetServer", requests.Forget),
		bus.Handle(api, "QuarantineServer", requests.Quarantine),
		bus.Handle(api, "ReleaseServer", requests.Release),
		bus.Handle(api, "RevokeServer", requests.Revoke),
		bus.Handle(api, "RecordCleanUp", requests.RecordCleanUp),
		bus.Handle(api, "CountServers", requests.Count),
	)
}

// serveRollouts registers the methods about rollouts.
func (r *Registry) serveRollouts(api *bus.Service) error {
	requests := rollouts.NewAPI(r.records, r.lookup, r.presence.Unsettled, r.cfg.Log)
	past := rollouts.NewPast(requests, r.cfg.Conn, r.cfg.TaskConcurrency)
	return errors.Join(
		bus.Handle(api, "PlanRollout", past.PlanAhead),
		bus.Handle(api, "GetRollout", past.GetAhead),
		bus.Handle(api, "ListRollouts", requests.List),
		bus.Handle(api, "ListRolloutTargets", requests.Targets),
		bus.Handle(api, "ControlRollout", requests.Control),
		bus.Handle(api, "AnswerRollout", requests.Answer),
		bus.Handle(api, "ReplayRollout", past.Replayed),
		bus.Handle(api, "ForecastRollout", past.Forecast),
	)
}

// queues returns how much waits in each queue.
func (r *Registry) queues() map[string]int {
	return map[string]int{
		"appends": r.writer.Waiting(), "rechecks": r.rechecks.Waiting(), "defaults": r.defaults.Waits(),
		"labels": r.labels.Waits(), "lobby": r.lobby.Waits(),
	}
}

// measuredGroups bounds the values of a label; each of these fields has fewer.
const measuredGroups = 16

// measure adds the service's metrics to a Set.
func (r *Registry) measure(m *metrics.Set, v *view.View) {
	r.follower.Measure(m)
	r.writer.Measure(m)
	m.Gauge(metrics.QueueDepth, func(context.Context) []metrics.Sample { return metrics.By(r.queues()) })
	for name, count := range map[string]func() *registryv1.Counts{
		metrics.Servers: func() *registryv1.Counts {
			return v.CountServers(view.ServerFilter{Late: r.presence.Late()}, []string{"presence"}, measuredGroups)
		},
		metrics.ServersStanding: func() *registryv1.Counts {
			return v.CountServers(view.ServerFilter{}, []string{"standing"}, measuredGroups)
		},
		metrics.Instances: func() *registryv1.Counts {
			return v.CountInstances(view.InstanceFilter{}, []string{"health"}, measuredGroups)
		},
	} {
		m.Gauge(name, func(context.Context) []metrics.Sample {
			var counts *registryv1.Counts
			r.follower.Read(func() { counts = count() })
			var out []metrics.Sample
			for _, g := range counts.GetGroups() {
				out = append(out, metrics.Sample{Value: float64(g.GetCount()), Labels: g.GetValues()})
			}
			return out
		})
	}
}
