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
	Labels: map[string]string{"rack": "a", "evil": "${server}"},
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

func TestAnUnknownVariableIsRefusedWhereverItIs(t *testing.T) {
	for name, run := range map[string]*imagev1.Run{
		"command":  {Command: "${nothing}"},
		"argument": {Args: []string{"${label.none}"}},
		"env":      {Env: map[string]string{"A": "${}"}},
		"probe":    {Ready: &imagev1.Ready{Probe: &imagev1.Ready_Tcp{Tcp: "${host}:1"}}},
		"socket":   {Sockets: []*imagev1.Socket{{Name: "a", Listen: "${host}:1"}}},
		"not shut": {Args: []string{"${agent"}},
	} {
		if _, err := values.Fill(run); fault.RefusalOf(err).GetCode() != "UNKNOWN_VARIABLE" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
