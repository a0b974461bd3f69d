package engine

import (
	"context"
	"maps"
	"sync"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// rooms are what the engine and its steps share.
type rooms struct {
	specs     agent.Specs
	configs   agent.Configs
	images    *store.Images
	trash     store.Trash
	repairs   *agent.Repairs
	sockets   *agent.Sockets
	processes *agent.Processes
	health    *observe.Health
	observe   *observe.Observer
	records   inventory.Keeper
	deferrals *deferrals
}

// newRooms returns the rooms of one root. changed is called when an agent changed by itself.
func newRooms(cfg Config, changed func()) rooms {
	m := rooms{
		specs:     agent.Specs{Root: cfg.Root, Server: cfg.ServerID},
		images:    store.NewImages(cfg.Root, cfg.Journal, cfg.Keep, cfg.Log),
		trash:     store.Trash{Root: cfg.Root, Journal: cfg.Journal, Log: cfg.Log},
		health:    observe.NewHealth(),
		records:   inventory.Keeper{Root: cfg.Root, Server: cfg.ServerID, Journal: cfg.Journal},
		deferrals: newDeferrals(cfg, changed),
	}
	m.configs = agent.Configs{Specs: m.specs}
	m.repairs = agent.NewRepairs(m.images.Damaged, changed, cfg.Log)
	m.sockets = agent.NewSockets(m.specs, cfg.Journal, cfg.Supervisor, cfg.Log)
	m.processes = agent.NewProcesses(m.specs, cfg.Supervisor, m.sockets, m.repairs, changed, cfg.Log)
	m.observe = &observe.Observer{
		Root: cfg.Root, Server: cfg.ServerID, Journal: cfg.Journal, Images: m.images, Processes: m.processes,
		Configs: m.configs, Slots: cfg.Supervisor.Slots, Trash: m.trash, Health: m.health,
		Self: selfCheck(cfg, m.specs), Stale: 2 * cfg.CheckEvery, Log: cfg.Log,
		NextRepair: func(i *change.Instance) time.Time {
			return m.repairs.NextAt(convergenceID(i.ID, i.Image.GetId(), i.ConfigurationDigest))
		},
		Over: m.repairs.Over,
	}
	return m
}

// stepSet is the step of each state, for each life.
type stepSet struct {
	bring, self, removal, adopt, release map[change.State]steps.Step

	health steps.HealthCheck
	settle steps.Settle
}

func (s stepSet) of(r *change.Record) map[change.State]steps.Step {
	switch {
	case r.Verb == taskv1.Verb_VERB_RELEASE:
		return s.release
	case r.Removes():
		return s.removal
	case r.Adopts():
		return s.adopt
	case r.To.IsSelf():
		return s.self
	}
	return s.bring
}

// newSteps wires the steps. leave ends the engine for another program, and doubt returns why
// the inventory is not trusted.
func newSteps(
	cfg Config, m rooms, life *steps.ServerLife, reports *reporter, leave func(error), doubt func() (string, error),
) stepSet {
	compare := steps.Compare{Processes: m.processes, Whole: m.observe.RecentlyWhole}
	starter := steps.Starter{Processes: m.processes, Compare: compare}
	links := steps.Links{Root: cfg.Root, Configs: m.configs}
	selfLinks := steps.SelfLinks{Links: links, Self: cfg.Self}
	health := steps.HealthCheck{Images: m.images, Processes: m.processes, Compare: compare}
	restore := steps.RestoreOld{Links: links, Starter: starter, Health: health, Life: life}
	sweep := steps.Sweep{Root: cfg.Root, Images: m.images, Configs: m.configs, Journal: cfg.Journal}
	settle := steps.Settle{Processes: m.processes, Sockets: m.sockets, Repairs: m.repairs}
	tidy := steps.All{sweep, settle}
	begin := steps.BeginSwitch{Root: cfg.Root, Records: m.records}
	commit := steps.Commit{Processes: m.processes, Records: m.records}
	known, keepBus := steps.CheckKnown{Version: cfg.Version}, steps.KeepBus{Bus: cfg.Bus}
	deferring := m.deferrals.step(life, reports, steps.Sameness{Configs: m.configs, Compare: compare}.Touches)

	prepare := map[change.State]steps.Step{
		change.Checking:  checks(cfg, m, known),
		change.Reserving: steps.Reserve{Root: cfg.Root, Images: m.images, Lock: new(sync.Mutex)},
		change.Fetching:  steps.Fetch{Fetcher: cfg.Fetcher},
		change.Verifying: steps.Verify{Images: m.images},
		change.Staging:   steps.Stage{Root: cfg.Root, Images: m.images},
		change.Deferring: deferring,
		change.Replacing: steps.Replace{Images: m.images},
		change.Assessing: steps.All{steps.Assess{Observe: m.observe}, steps.SeeBus{Bus: cfg.Bus}},
		change.Committed: tidy, change.Restored: tidy, change.Broken: tidy,
	}
	set := stepSet{
		health: health, settle: settle,
		removal: map[change.State]steps.Step{
			change.Checking:    steps.All{known, steps.CheckRemoval{Root: cfg.Root, Observe: m.observe, Doubt: doubt}},
			change.Deferring:   deferring,
			change.Stopping:    steps.Stop{Root: cfg.Root, Processes: m.processes},
			change.MovingOut:   steps.MoveOut{Root: cfg.Root, Trash: m.trash, Self: selfLinks},
			change.RollingBack: steps.MoveBack{Root: cfg.Root, Trash: m.trash},
			change.Deleting:    steps.Delete{Root: cfg.Root, Trash: m.trash},
			change.Committed:   tidy, change.Restored: tidy, change.Broken: tidy,
		},
		bring: with(prepare, map[change.State]steps.Step{
			change.Rehearsing: steps.Rehearse{Root: cfg.Root, Configs: m.configs, Compare: compare},
			change.Switching: steps.All{
				begin,
				steps.StopOld{Processes: m.processes, Sockets: m.sockets, Compare: compare},
				steps.MoveLinks{Links: links, Processes: m.processes},
				steps.StartNew{Starter: starter},
			},
			change.HealthChecking: steps.All{health, keepBus},
			change.Committing:     commit,
			change.RollingBack: steps.All{
				steps.Rollback{Starter: starter, Restore: restore, Sweep: sweep}, steps.BlameBus{Keep: keepBus},
			},
		}),
		self: with(prepare, map[change.State]steps.Step{
			change.Rehearsing:  steps.RehearseSelf{Specs: m.specs, Self: cfg.Self},
			change.Trial:       steps.All{begin, steps.Trial{Specs: m.specs, Leave: leave}},
			change.Committing:  steps.All{steps.LinkSelf{SelfLinks: selfLinks}, commit},
			change.Starting:    steps.BecomeSelf{Self: cfg.Self, Specs: m.specs, Leave: leave},
			change.RollingBack: steps.RollbackSelf{SelfLinks: selfLinks, Restore: restore},
		}),
	}
	return set.withAdoption(cfg, m, restore)
}

// checks returns what is looked at before anything of an agent is touched.
func checks(cfg Config, m rooms, known steps.CheckKnown) steps.All {
	return steps.All{
		known,
		steps.CheckRoot{Root: cfg.Root},
		steps.CheckImage{Trust: cfg.Trust},
		steps.CheckSelf{Self: cfg.Self, Journal: cfg.Journal},
		steps.CheckLink{Root: cfg.Root},
		steps.CheckConfiguration{Root: cfg.Root, Configs: m.configs, Whole: m.observe.Whole},
		steps.CheckConfinement{Processes: m.processes},
		steps.CheckNeeds{Version: cfg.Version, Journal: cfg.Journal, Sysinfo: cfg.Sysinfo},
		steps.OpenSockets{Sockets: m.sockets, Processes: m.processes},
	}
}

// withAdoption adds the steps that differ from an install and from a removal when the process is not Garrison's.
func (s stepSet) withAdoption(cfg Config, m rooms, restore steps.RestoreOld) stepSet {
	services, _ := cfg.Supervisor.(supervise.Services)
	atOnce := steps.Func(func(context.Context, *steps.Run) error { return nil }) // the process goes on as it is
	s.adopt = with(s.bring, map[change.State]steps.Step{
		change.Checking: steps.All{
			steps.CheckKnown{Version: cfg.Version},
			steps.CheckRoot{Root: cfg.Root},
			steps.CheckImage{Trust: cfg.Trust},
			steps.CheckAdoption{
				Root: cfg.Root, Journal: cfg.Journal, Members: cfg.Supervisor.Members, Services: services,
			},
			steps.CheckLink{Root: cfg.Root},
			steps.CheckConfiguration{Root: cfg.Root, Configs: m.configs, Whole: m.observe.Whole},
			steps.CheckConfinement{Processes: m.processes},
			steps.CheckNeeds{Version: cfg.Version, Journal: cfg.Journal, Sysinfo: cfg.Sysinfo},
		},
		change.Deferring: atOnce,
		change.Assessing: steps.CompareProgram{Specs: m.specs},
		change.Switching: steps.All{
			steps.BeginSwitch{Root: cfg.Root, Records: m.records},
			steps.MoveLinks{Links: restore.Links, Processes: m.processes},
			steps.TakeProcess{Processes: m.processes},
		},
		change.RollingBack: steps.GiveUpAdoption{Processes: m.processes, Restore: restore},
	})
	s.release = with(s.removal, map[change.State]steps.Step{
		change.Checking:  steps.All{steps.CheckRelease{}, s.removal[change.Checking]},
		change.Deferring: atOnce,
		change.Stopping:  steps.LetGo{Processes: m.processes},
	})
	return s
}

// with returns common steps together with those of one life, which take the place of common ones.
func with(common, own map[change.State]steps.Step) map[change.State]steps.Step {
	out := maps.Clone(common)
	maps.Copy(out, own)
	return out
}

// newDriver returns what does changes.
func newDriver(cfg Config, m rooms, life *steps.ServerLife, set stepSet, reports *reporter) *driver {
	return &driver{
		root: cfg.Root, journal: cfg.Journal, steps: set, life: life, health: m.health, records: m.records,
		endings:  endings{write: reports.endChanges, wait: endTogether},
		progress: cfg.Progress, begun: reports.sayBegun, point: cfg.FailPoint, log: cfg.Log,
		current: map[string]taskv1.Step{},
	}
}
