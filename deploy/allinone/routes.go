package allinone

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// routePort is where the servers of a cluster expect each other; deploy/nats/cluster.conf listens there.
const routePort = "6222"

// hostsOf returns the hosts of a bus's URL, which may be several with commas.
func hostsOf(urls string) (hosts []string) {
	for one := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// routes keeps trust/cluster/routes.conf, which the configuration of each server of a cluster includes: where its
// servers are. A bus with one server has no such file.
func (k Keys) routes() error {
	file := filepath.Join(k.Data, "trust", "cluster", "routes.conf")
	hosts := hostsOf(k.URL)
	if len(hosts) < 2 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	var b strings.Builder
	b.WriteString("routes: [\n")
	for _, host := range hosts {
		fmt.Fprintf(&b, "  \"nats-route://%s\"\n", net.JoinHostPort(host, routePort))
	}
	b.WriteString("]\n")
	if err := strictdir.Make(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(file, []byte(b.String()), 0o600)
}
