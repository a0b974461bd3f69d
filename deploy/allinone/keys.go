package allinone

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Keys describes a bus in a process of its own, and services in processes of their own.
type Keys struct {
	Data       string   // the data directory
	URL        string   // of the bus, several with commas
	Names      []string // host names and addresses of the bus, besides those of URL
	AllowPlain bool     // the bus has no TLS
	ChangeCA   string   // a step of the change to another CA: begin or end; empty means none
	Lobby      bool     // the bus lets in machines without a token, which may ask to join
	HandOut    string   // a directory that gets one for each part, with the files that it needs; empty means none
	Log        io.Writer
}

// WriteKeys creates the keys and credentials of the bus and the services, the bus's certificate, the first
// operator's context, and trust/accounts.conf, which the configuration of a nats-server includes. It keeps existing
// files, but renews a certificate in the last third of its validity. With HandOut it then brings the directory
// of each part up to date. It is safe to run at any time.
func WriteKeys(k Keys) error {
	if k.URL == "" {
		return errors.New("--url is missing: pass the future address of the bus, such as tls://bus:4222")
	}
	data := k.Data
	have, err := checkData(data)
	if err != nil {
		return err
	}
	if err := k.takeBack(); err != nil {
		return err
	}
	a, err := trust.OpenAuthority(filepath.Join(data, "trust"))
	if err != nil {
		return err
	}
	if _, err := a.SecretKeyFile(); err != nil {
		return err
	}
	conf := accountsConf(a.Public)
	if k.Lobby {
		login, err := a.LobbyLogin()
		if err != nil {
			return err
		}
		conf += "default_sentinel: " + login + "\n"
	}
	accounts := filepath.Join(data, "trust", "accounts.conf")
	if err := renameio.WriteFile(accounts, []byte(conf), 0o600); err != nil {
		return fmt.Errorf("write accounts.conf: %w", err)
	}
	if err := k.routes(); err != nil {
		return fmt.Errorf("write the routes of the cluster: %w", err)
	}
	if err := adoptData(data, have); err != nil {
		return fmt.Errorf("write the format of the data directory: %w", err)
	}
	ca, err := k.certificate()
	if err != nil {
		return err
	}
	if err := k.context(a, ca); err != nil {
		return err
	}
	return k.handOut()
}

// certificate keeps the CA and the certificate of the bus current, and returns the CAs that clients should trust.
func (k Keys) certificate() ([]byte, error) {
	if k.AllowPlain {
		return nil, nil
	}
	ca, err := trust.OpenCA(filepath.Join(k.Data, "trust"), time.Now())
	if err != nil {
		return nil, err
	}
	steps := map[string]func() error{
		"": func() error { return nil }, "begin": func() error { return ca.Change(time.Now()) }, "end": ca.Drop,
	}
	if err := steps[k.ChangeCA](); err != nil {
		return nil, fmt.Errorf("change the CA: %w", err)
	}
	names := append(slices.Clone(k.Names), hostsOf(k.URL)...)
	cert, err := writeCert(k.Data, names, time.Now())
	if err != nil {
		return nil, err
	}
	if cert != nil {
		k.say("%s: a new certificate for %s, until %s; a running nats-server reads it after SIGHUP\n",
			BusCertificate(k.Data), strings.Join(namesOf(cert), " "), cert.Leaf.NotAfter.Format(time.DateOnly))
	}
	return ca.Bundle(), nil
}

// context keeps the first operator's context, with the present CA. See operatorContext.
func (k Keys) context(a *trust.Authority, ca []byte) error {
	file := filepath.Join(k.Data, "operator.json")
	c, why, err := operatorContext(a, file, time.Now())
	if err != nil || why == "" && c.CA == string(ca) && c.AllowPlain == k.AllowPlain {
		return err
	}
	if why != "" {
		c.URL = k.URL
	}
	c.CA, c.AllowPlain = string(ca), k.AllowPlain
	return c.Write(file)
}

// accountsConf writes operator and accounts in nats-server's configuration language.
func accountsConf(p trust.Public) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\nresolver_preload: {\n", p.OperatorJWT, p.SystemAccount)
	keys := make([]string, 0, len(p.Accounts))
	for k := range p.Accounts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "  %s: %s\n", k, p.Accounts[k])
	}
	b.WriteString("}\n")
	return b.String()
}

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

// firstOperator is the name of the admin whose context stands in the data directory.
const firstOperator = "operator"

// operatorContext returns the first operator's context that is kept in a file. It makes a new one, and returns why,
// when the file is missing or damaged, or its credentials have expired: the admin of this machine is never locked out.
// Other credentials of that name stay valid until they expire or are revoked.
func operatorContext(a *trust.Authority, file string, at time.Time) (c trust.Context, why string, err error) {
	c, err = trust.ReadContext(file)
	switch {
	case errors.Is(err, trust.ErrDamaged):
		why = err.Error()
	case errors.Is(err, fs.ErrNotExist):
		why = "there was none"
	case err != nil:
		return c, "", err
	default:
		if _, until := trust.Times(c.JWT); until.IsZero() || !at.Before(until) {
			why = "its credentials have expired"
		}
	}
	if why == "" {
		return c, "", nil
	}
	c, err = a.Person(firstOperator, topology.Admin, "", at.Add(trust.PersonValidFor))
	return c, why, err
}
