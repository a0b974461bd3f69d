package registry

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// settle lets everything that is under way end well, and returns once nothing changes.
func (m *model) settle() {
	m.revive()
	for _, intent := range m.intents {
		_, id, _ := strings.Cut(intent.Subject, ".alice.")
		m.outcome(id)
	}
	for _, e := range m.environments() { // what they derived stays
		for _, agent := range modelAgents {
			m.unsetDefault(e, agent)
		}
	}
	for _, h := range m.servers {
		for _, agent := range modelAgents {
			if err := m.unhold(h, agent); err != nil {
				m.rt.Fatalf("end a hold: %v", err)
			}
		}
	}
	m.settled(m.replicas[0].Registry, m.replicas[1].Registry)
	m.skew.Add(int64(budget.Burst * budget.Every)) // what changed too often is looked at again
	polltest.Eventually(m.t, "every change ends, and the servers list what is recorded", func() bool {
		quiet := true
		for _, h := range m.servers {
			quiet = m.endAll(h) && quiet
		}
		return quiet
	})
}

// endAll ends what is under way on a server, and reports whether the server and the registry agree.
func (m *model) endAll(h *host) (agree bool) {
	switch m.life(h) {
	case serverv1.Life_LIFE_DYING:
		return m.endDying(h)
	case serverv1.Life_LIFE_DEAD:
		return m.endDead(h)
	}
	if by := m.server(h).Reinstall; by != nil {
		m.endReinstall(h, by.IntentId)
		return false
	}
	agree = true
	for agent := range h.open {
		m.end(h, agent, true)
	}
	have := m.instances(h)
	for _, agent := range modelAgents {
		i, f := have[agent], h.has[agent]
		if f != nil {
			f.Health = instancev1.Health_HEALTH_GOOD
		}
		switch {
		case i == nil:
			agree = agree && f == nil
		case i.TaskId == "":
			m.open(h, i)
			agree = false
		case i.Wanted == nil && i.TaskState == taskv1.State_STATE_UNDONE:
			m.retry(h, agent)
			agree = false
		default:
			agree = agree && cmp.Equal(i.Observed, f.GetImage(), protocmp.Transform()) && i.Wanted != nil
		}
	}
	if !agree {
		m.say(h)
	}
	return agree
}

// retry asks again for a removal that was undone: nothing tries it by itself.
func (m *model) retry(h *host, agent string) {
	m.accepted("remove", remove(agent, on(h.id)))
}

// check checks what must hold after every history.
func (m *model) check() {
	for _, intent := range m.intents {
		_, id, _ := strings.Cut(intent.Subject, ".alice.")
		decided := names(m.facts(ledger.Intent, id))
		if len(decided) != 1 {
			m.rt.Fatalf("intent %s was answered by %v; want one answer", id, decided)
		}
	}
	m.checkEnds()
	m.checkLabels()
	m.checkViews()
	for _, r := range m.replicas {
		r.follower.Read(func() { m.checkIndexes(r.records.View) })
	}
}

// checkOneAtATime checks that each instance at a key is gone before another one is wanted, and returns the one that is
// there at the end.
func (m *model) checkOneAtATime(key string) (there string) {
	for _, f := range m.facts(ledger.Instance, key) {
		switch b := f.Body.(type) {
		case *instancev1.Wanted:
			if there != "" && b.InstanceId != there {
				m.rt.Fatalf("%s: instance %s is wanted while %s is there", key, b.InstanceId, there)
			}
			there = b.InstanceId
		case *instancev1.Gone:
			if b.InstanceId != there {
				m.rt.Fatalf("%s: instance %s is gone while %q is there", key, b.InstanceId, there)
			}
			there = ""
		}
	}
	return there
}

// checkViews checks that both replicas, and a new fold of the ledger, hold the same.
func (m *model) checkViews() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	polltest.Eventually(m.t, "both replicas hold what a new fold of the ledger holds", func() bool {
		fresh := view.New()
		at, err := fold.RebuildTo(ctx, m.replicas[0].cfg.Conn, fresh, fold.Options{
			Service: ledger.Registry, Layout: view.Layout, Nouns: view.Nouns, Log: zerolog.Nop(),
		}, 0)
		if err != nil {
			m.t.Logf("fold the ledger anew: %v", err) // a machine under load may not answer in time
			return false
		}
		want, err := fold.CanonicalOf(fresh)
		if err != nil {
			m.rt.Fatal(err)
		}
		same := 0
		for _, r := range m.replicas {
			position, have, err := r.follower.Canonical()
			if err != nil {
				m.rt.Fatal(err)
			}
			if position == at && !bytes.Equal(have, want) {
				m.rt.Fatalf("at fact %d a replica differs from a new fold of the ledger", at)
			}
			if position == at {
				same++
			}
		}
		return same == len(m.replicas)
	})
}

// checkIndexes checks that filtered lists and counts equal a scan of all instances. It must run inside Read.
func (m *model) checkIndexes(v *view.View) {
	all := map[string]*instancev1.Instance{}
	for key, i := range v.Instances(view.InstanceFilter{}, "") {
		all[key] = i
	}
	converged := instancev1.State_STATE_CONVERGED
	one, env := m.servers[0].id, m.environments()[0]
	tiered, refusal := selector.NewQuery(v, &intentv1.Selector{Labels: map[string]string{tier: "a"}})
	if refusal != nil {
		m.rt.Fatal(refusal)
	}
	type row struct {
		*instancev1.Instance
		on *serverv1.Server
	}
	for _, c := range []struct {
		q     view.InstanceFilter
		match func(row) bool
	}{
		{view.InstanceFilter{Server: one}, func(r row) bool { return r.ServerId == one }},
		{view.InstanceFilter{Agent: "web"}, func(r row) bool { return r.Agent == "web" }},
		{view.InstanceFilter{Version: "1.0.0"}, func(r row) bool {
			return r.GetWanted().GetVersion() == "1.0.0" || r.GetObserved().GetVersion() == "1.0.0"
		}},
		{view.InstanceFilter{State: converged}, func(r row) bool { return r.State == converged }},
		{view.InstanceFilter{Environment: env}, func(r row) bool { return r.on.GetEnvironment() == env }},
		{view.InstanceFilter{On: tiered}, func(r row) bool { return r.on.GetLabels()[tier] == "a" }},
		{view.InstanceFilter{NotAtWanted: true}, func(r row) bool {
			return r.GetWanted().GetId() != r.GetObserved().GetId()
		}},
	} {
		var want []string
		for key, i := range all {
			if s, _ := v.Server(i.ServerId); c.match(row{i, s}) {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		var have []string
		for key := range v.Instances(c.q, "") {
			have = append(have, key)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			m.rt.Fatalf("instances %+v:\n%s", c.q, diff)
		}
		if n := v.CountInstances(c.q, nil, 0).GetTotal(); n != uint64(len(want)) {
			m.rt.Fatalf("instances %+v: %d are counted; want %d", c.q, n, len(want))
		}
	}
}
