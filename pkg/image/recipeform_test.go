package image_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/image"
)

func TestEachKeyThatIsNoTextHasAFormThatARefusalShows(t *testing.T) {
	t.Parallel()
	if keys := image.Formless(); len(keys) > 0 {
		t.Errorf("no form of %s", strings.Join(keys, ", "))
	}
}

func TestARefusalOfAValueShowsItsRightForm(t *testing.T) {
	t.Parallel()
	refusals := map[string]refusal{}
	for recipe, says := range map[string]string{
		daemon("ready: notify"):         `run.ready is of type string, want the form ready: {http: "http://`,
		daemon("args: -v"):              `run.args is of type string, want the form args: ["-listen"`,
		daemon("sockets: {name: http}"): `run.sockets is of type map, want the form sockets: [{name: http, listen: `,
		daemon("limits: {tasks: '9'}"):  `run.limits.tasks is of type string, want the form tasks: 20`,
		"requires: [db]":                `requires is of type list, want the form requires: {db: ">=2.0.0"}`,
		"run: beacon":                   `run is of type string, want the form run: {command: beacon}`,
		"- agent":                       "such as agent: beacon",
		daemon("configs: [{template: run, path: x, mode: rw-r}]"):   `mode "rw-r" is not a mode; write it as 0640`,
		daemon("configs: [{template: run, path: x, mode: '0980'}]"): `run.configs.mode "0980" is not a mode`,
		daemon("configs: [{template: run, path: x, mode: [6]}]"):    `run.configs.mode [6] is not a mode`,
	} {
		refusals[recipe] = refusal{recipe, run, code.BadRecipe, says}
	}
	refuseBuilds(t, refusals)
}

func TestAModeIsReadInEachFormThatIsWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`0640`, `"0640"`, `'640'`, `0o640`, `"0o640"`} {
		m, _ := build(t, image.BuildOptions{Dir: tree(t, map[string]entry{
			"garrison.yaml": {text: daemon("configs: [{template: run, path: x, mode: " + text + "}]")},
			"run":           {text: "x", mode: 0o100},
		})})
		if have := m.GetRun().GetConfigs()[0].GetMode(); have != 0o640 {
			t.Errorf("%s is read as %o, want 640", text, have)
		}
	}
}
