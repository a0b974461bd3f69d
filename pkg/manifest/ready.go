package manifest

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// maxRestartAfter bounds run.ready.restart_after.
const maxRestartAfter = 1000

func (f runFaults) ready(r *imagev1.Ready) {
	f.exec("run.ready.exec", r.GetExec())
	f.http(r.GetHttp())
	f.tcp(r.GetTcp())
	f.wait("run.ready.timeout", r.GetTimeoutMs())
	f.wait("run.ready.soak", r.GetSoakMs())
	f.wait("run.ready.bus", r.GetBusTimeoutMs())
	switch n := r.GetRestartAfter(); {
	case n > maxRestartAfter:
		f.Add("run.ready.restart_after", code.BadManifest, "run.ready.restart_after is %d, want at most %d", n,
			maxRestartAfter)
	case n > 0 && r.GetHttp() == "" && r.GetTcp() == "" && r.GetExec() == nil:
		f.Add("run.ready.restart_after", code.BadManifest, "run.ready.restart_after counts failed probes, and no "+
			"probe is repeated (want http, tcp or exec)")
	}
}

// http refuses a probe that is not a URL of http or https with a host. Its scheme, too, may be a variable.
func (f runFaults) http(probe string) {
	if probe == "" {
		return
	}
	scheme, rest, _ := strings.Cut(probe, "://")
	if variable.MatchString(scheme) {
		scheme = "http"
	}
	// 00 stands for the values: it can be in a host and a port, and behind a %.
	u, err := url.Parse(scheme + "://" + variable.ReplaceAllString(rest, "00"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !isPort(cmp.Or(u.Port(), "80")) {
		f.Add("run.ready.http", code.BadManifest,
			"run.ready.http %q is not a URL of http or https with a host, such as http://127.0.0.1:8080/", probe)
	}
}

// tcp refuses a probe that is not HOST:PORT.
func (f runFaults) tcp(probe string) {
	if probe == "" {
		return
	}
	_, port, err := net.SplitHostPort(variable.ReplaceAllString(probe, "00"))
	if err != nil || !isPort(port) {
		f.Add("run.ready.tcp", code.BadManifest,
			"run.ready.tcp %q is not HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080", probe)
	}
}

// isPort reports whether a text is a port, in which 00 may stand for a variable's value.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	return err == nil && (n < 1<<16 || strings.Contains(s, "00")) && s != "0"
}
