package variables_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/variables"
)

var values = variables.Facts{
	Agent: "cn-agent", Version: "1.0.0", Server: "s", State: "/state", Image: "/image",
	Labels: map[string]string{
		"rack": "a",
		"evil": "${server}",
	}, Config: "/config", Metadata: map[string]string{"level": "info"},
}.Values()

func TestEveryVariableIsFilledInOnce(t *testing.T) {
	got, err := values.Fill(&imagev1.Run{
		Command: "bin/${agent}", Args: []string{"--state=${state}", "$HOME", "${label.evil}"},
		Env:     map[string]string{"B": "${version}${server}", "A": "${label.rack}"},
		Ready:   &imagev1.Ready{Probe: &imagev1.Ready_Http{Http: "http://127.0.0.1/${agent}"}},
		Sockets: []*imagev1.Socket{{Name: "http", Listen: "${label.rack}:80"}},
	})
	want := variables.Run{
		Command: "bin/cn-agent", Args: []string{"--state=/state", "$HOME", "${server}"},
		Env: []string{"A=a", "B=1.0.0s"}, HTTP: "http://127.0.0.1/cn-agent",
		Sockets: []*imagev1.Socket{{Name: "http", Listen: "a:80"}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestMetadataAndTheConfigurationsPlaceAreVariables(t *testing.T) {
	got, err := values.Fill(&imagev1.Run{
		Args: []string{
			"${config}/a",
			"${metadata.level}",
		}, Rehearsal: &imagev1.Exec{Command: "check", Args: []string{"${config}"}},
	})
	want := variables.Run{
		Args:      []string{"/config/a", "info"},
		Rehearsal: &imagev1.Exec{Command: "check", Args: []string{"/config"}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestRunsAreTheSameWhenTheirProcessIs(t *testing.T) {
	run := func() *imagev1.Run {
		return &imagev1.Run{
			Command: "c", Args: []string{"a"}, Env: map[string]string{"E": "e"},
			Sockets: []*imagev1.Socket{{Name: "s", Listen: ":1"}},
			Ready: &imagev1.Ready{
				Probe: &imagev1.Ready_Exec{Exec: &imagev1.Exec{Command: "p"}},
			}, Rehearsal: &imagev1.Exec{Command: "r"},
		}
	}
	filled := func(change func(*imagev1.Run)) variables.Run {
		r := run()
		change(r)
		f, err := values.Fill(r)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	base := filled(func(*imagev1.Run) {})
	for name, c := range map[string]struct {
		change func(*imagev1.Run)
		same   bool
	}{
		"nothing":     {func(*imagev1.Run) {}, true},
		"a rehearsal": {func(r *imagev1.Run) { r.Rehearsal.Args = []string{"x"} }, true},
		"the command": {func(r *imagev1.Run) { r.Command = "d" }, false},
		"an argument": {func(r *imagev1.Run) { r.Args = []string{"b"} }, false},
		"a variable":  {func(r *imagev1.Run) { r.Env["E"] = "f" }, false},
		"a socket":    {func(r *imagev1.Run) { r.Sockets[0].Listen = ":2" }, false},
		"the probe":   {func(r *imagev1.Run) { r.GetReady().GetExec().Command = "q" }, false},
		"its kind":    {func(r *imagev1.Run) { r.Ready.Probe = &imagev1.Ready_Http{Http: "http://x"} }, false},
	} {
		if got := base.Same(filled(c.change)); got != c.same {
			t.Errorf("%s: the same is %v", name, got)
		}
	}
}

func TestAnUnknownVariableIsRefusedWhereverItIs(t *testing.T) {
	for name, run := range map[string]*imagev1.Run{
		"command":  {Command: "${nothing}"},
		"argument": {Args: []string{"${label.none}"}},
		"env":      {Env: map[string]string{"A": "${}"}},
		"probe":    {Ready: &imagev1.Ready{Probe: &imagev1.Ready_Tcp{Tcp: "${host}:1"}}},
		"exec": {
			Ready: &imagev1.Ready{
				Probe: &imagev1.Ready_Exec{Exec: &imagev1.Exec{Command: "a", Args: []string{"${host}"}}},
			},
		},
		"socket":   {Sockets: []*imagev1.Socket{{Name: "a", Listen: "${host}:1"}}},
		"metadata": {Args: []string{"${metadata.none}"}},
		"a check":  {Rehearsal: &imagev1.Exec{Command: "x", Args: []string{"${host}"}}},
		"not shut": {Args: []string{"${agent"}},
	} {
		if _, err := values.Fill(run); fault.RefusalOf(err).GetCode() != "UNKNOWN_VARIABLE" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
