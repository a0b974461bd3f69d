package declare_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

func TestAnEnvironmentSaysWhatItsServersRun(t *testing.T) {
	t.Parallel()
	set := read(t, `format: 1
environments:
  prod:
    description: the shop
    wanted:
      fluent: {channel: stable}
      beacon: 1.6.0
    rollout: {stages: [{canaries: 1}, {percent: 10}], maxBroken: {servers: 1}, approve: true}
`)
	want := []declare.Wanted{{
		Environment: "prod", At: declare.Position{File: "a.yaml", Line: 6},
		Agents: []declare.WantedAgent{
			{"beacon", &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "1.6.0"}}},
			{"fluent", &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: "stable"}}},
		},
		Strategy: &rolloutv1.Strategy{
			Stages: []*rolloutv1.Stage{
				{Size: &rolloutv1.Stage_Canaries{Canaries: 1}}, {Size: &rolloutv1.Stage_Percent{Percent: 10}},
			},
			MaxBroken: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}, Approve: true,
		},
	}}
	if d := cmp.Diff(want, set.Wanted, protocmp.Transform()); d != "" {
		t.Errorf("(-want +have)\n%s", d)
	}
	if len(set.Objects) != 1 || len(set.Objects[0].Paths) != 1 {
		t.Errorf("the environment declares %v", set.Objects[0].Paths)
	}
	data, err := declare.Write(set)
	if err != nil || !strings.Contains(string(data), `
    wanted:
      beacon: 1.6.0
      fluent:
        channel: stable
`) {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestWhatAnEnvironmentCannotWantIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"{wanted: {Beacon: 1.0.0}}":                       "f.yaml:3: ",
		"{wanted: {}}":                                    "f.yaml:3: environment prod wanted names no agent",
		"{wanted: {beacon: {}}}":                          "beacon: 1.6.0, or {channel: stable}",
		"{wanted: {beacon: }}":                            "f.yaml:3: ",
		"{wanted: [beacon]}":                              "is not a mapping",
		"{wanted: {beacon: {chanel: a}}}":                 "channel",
		"{wanted: {beacon: {channel: a, version: b}}}":    "only one of them",
		"{wanted: {beacon: 1.0.0, beacon: 2.0.0}}":        "twice",
		"{rollout: {approve: true}}":                      "no key wanted",
		"{wanted: {beacon: 1.0.0}, rollout: {soakk: 1m}}": "soak",
		"{wanted: {beacon: 1.0.0}, rollout: {soak: 1}}":   "is not a duration",
	} {
		_, err := declare.Read([]declare.File{{Name: "f.yaml", Data: []byte(
			"format: 1\nenvironments:\n  prod: " + in + "\n")}})
		if err == nil || !strings.Contains(err.Error()+fault.RefusalOf(err).GetNearest(), want) {
			t.Errorf("%s: %v; want %q", in, err, want)
		}
	}
}
