package variables_test

import (
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/variables"
)

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
