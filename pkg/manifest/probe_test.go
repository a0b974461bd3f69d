package manifest_test

import (
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"
)

func TestAProbeIsAURLOfHTTPWithAHost(t *testing.T) {
	t.Parallel()
	for probe, ok := range map[string]bool{
		"http://127.0.0.1:8080/": true, "https://localhost": true, "HTTP://[::1]:80/a?b=c d": true,
		"http://127.0.0.1:${label.port}/": true, "http://${server}:80${label.n}/%${label.hex}": true,
		"${label.scheme}://127.0.0.1/": true, "http://:8080/": true,

		"file:///etc/passwd": false, "file://host/etc/passwd": false, "ftp://a/": false, "http:///x": false,
		"http://": false, "127.0.0.1:8080": false, "/ready": false, "localhost/?u=http://a": false,
		"${label.url}": false, "http://a:b/": false, "http://a b/": false, "http:127.0.0.1/": false,
	} {
		m := valid()
		m.Run.Ready = &imagev1.Ready{Probe: &imagev1.Ready_Http{Http: probe}}
		if err := manifest.Check(m); ok && err != nil || !ok && fault.RefusalOf(err).GetCode() != code.BadManifest {
			t.Errorf("%s: %v, want ok %v", probe, err, ok)
		}
	}
}
