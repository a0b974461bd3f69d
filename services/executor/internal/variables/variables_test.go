package variables_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

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

func TestAVariableWalksIntoANestedValue(t *testing.T) {
	log, err := metadata.FromJSON(`{"file": {"path": "/a", "keep": 3}, "on": true, "a.b": 1, "list": [1, "x"]}`)
	if err != nil {
		t.Fatal(err)
	}
	port, err := metadata.FromJSON("8080")
	if err != nil {
		t.Fatal(err)
	}
	v := variables.Facts{Metadata: map[string]string{"log": log, "port": port, "level": "info"}}.Values()
	got, err := v.Fill(&imagev1.Run{Args: []string{
		"${metadata.log.file.path}:${metadata.log.file.keep}:${metadata.log.on}", "${metadata.log.list}",
		"${metadata.log.file}", "${metadata.port}", "${metadata.level}",
	}})
	want := []string{"/a:3:true", `[1,"x"]`, `{"keep":3,"path":"/a"}`, "8080", "info"}
	if diff := cmp.Diff(want, got.Args); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, name := range []string{"metadata.log.none", "metadata.log.a.b", "metadata.level.x", "metadata.log.list.0"} {
		_, err := v.Fill(&imagev1.Run{Args: []string{"${" + name + "}"}})
		if fault.RefusalOf(err).GetCode() != "UNKNOWN_VARIABLE" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func http(url string) *imagev1.Run {
	return &imagev1.Run{Ready: &imagev1.Ready{Probe: &imagev1.Ready_Http{Http: url}}}
}

func tcp(address string) *imagev1.Run {
	return &imagev1.Run{Ready: &imagev1.Ready{Probe: &imagev1.Ready_Tcp{Tcp: address}}}
}

// A probe reaches what the manifest says. The image is signed, and its labels are not.
func TestALabelDoesNotTurnAProbeElsewhere(t *testing.T) {
	for _, value := range []string{
		"80@10.0.0.1:22", "80/x", "80?x", "80#x", "80\\x", "[::1]", "80:81", "80 ", "80\n", "%34", "", "８０", "80\u202e",
	} {
		v := variables.Facts{Labels: map[string]string{"x": value}}.Values()
		for _, run := range []*imagev1.Run{
			http("http://127.0.0.1:${label.x}/"), http("http://${label.x}:80"), http("http://a${label.x}?q"),
			http("${label.x}://127.0.0.1/"), http("${label.x}"), tcp("127.0.0.1:${label.x}"), tcp("${label.x}:80"),
		} {
			if got, err := v.Fill(run); fault.RefusalOf(err).GetCode() != "BAD_VARIABLE" {
				t.Errorf("%v with %q is %q%q, %v", run.GetReady(), value, got.HTTP, got.TCP, err)
			}
		}
	}
	v := variables.Facts{Labels: map[string]string{"x": "a b", "y": "a\tb", "z": "a#b"}}.Values()
	for _, url := range []string{"http://h/${label.x}", "http://h/?${label.y}", "http://h/${label.z}"} {
		if _, err := v.Fill(http(url)); fault.RefusalOf(err).GetCode() != "BAD_VARIABLE" {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestALabelNamesAHostAPortOrAPath(t *testing.T) {
	v := variables.Facts{
		Server: "s", Labels: map[string]string{"host": "db-1.example_x.org", "port": "8080", "path": "a/b?c=d@e:f"},
	}.Values()
	for url, want := range map[string]string{
		"http://${label.host}:${label.port}/${label.path}": "http://db-1.example_x.org:8080/a/b?c=d@e:f",
		"http://[::1]:${label.port}":                       "http://[::1]:8080",
		"http://h?s=${server}&${label.path}":               "http://h?s=s&a/b?c=d@e:f",
	} {
		if got, err := v.Fill(http(url)); err != nil || got.HTTP != want {
			t.Errorf("%s is %q, %v; want %q", url, got.HTTP, err, want)
		}
	}
	if got, err := v.Fill(tcp("${label.host}:${label.port}")); err != nil || got.TCP != "db-1.example_x.org:8080" {
		t.Errorf("%q, %v", got.TCP, err)
	}
}
