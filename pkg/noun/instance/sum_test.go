package instance

import (
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func sumOf(found ...*reportv1.Found) (s Sum) {
	for _, f := range found {
		s.AddFound(f)
	}
	return s
}

func foundAgent(agent string) *reportv1.Found {
	return &reportv1.Found{
		Agent: agent, Image: &imagev1.Ref{Id: "image", Digest: []byte{1}}, Health: instancev1.Health_HEALTH_GOOD,
		ConfigurationDigest: []byte{2},
	}
}

func TestASumOfRecordsIsTheSumOfTheListThatTheyAreFrom(t *testing.T) {
	web, db := foundAgent("web"), foundAgent("db")
	var records Sum
	for _, f := range []*reportv1.Found{db, web} {
		records.AddRecord(&instancev1.Instance{
			Agent: f.Agent, Observed: f.Image, Health: f.Health, ObservedConfigurationDigest: f.ConfigurationDigest,
			Reason: "anything", Generation: 7,
		})
	}
	records.AddRecord(&instancev1.Instance{Agent: "never there"})
	trace := &reportv1.Found{Agent: "stray", Image: web.Image, Trace: serverv1.Trace_TRACE_LINK}
	if list := sumOf(web, db, trace); list != records {
		t.Errorf("the list has %x, its records %x", list, records)
	}
}

func TestASumTellsEachDifferenceThatIsRecorded(t *testing.T) {
	other := map[string]func(*reportv1.Found){
		"image":         func(f *reportv1.Found) { f.Image.Id = "other" },
		"digest":        func(f *reportv1.Found) { f.Image.Digest = []byte{9} },
		"configuration": func(f *reportv1.Found) { f.ConfigurationDigest = nil },
		"health":        func(f *reportv1.Found) { f.Health = instancev1.Health_HEALTH_BAD },
		"agent":         func(f *reportv1.Found) { f.Agent = "db" },
		"absence":       func(f *reportv1.Found) { f.Image = nil },
	}
	for what, change := range other {
		f := foundAgent("web")
		if change(f); sumOf(f) == sumOf(foundAgent("web")) {
			t.Errorf("another %s has the same sum", what)
		}
	}
}
