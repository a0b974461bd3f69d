package allinone

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/gateway"
)

// HTTP says where the gateway serves HTTP. The zero value means nowhere.
type HTTP struct {
	Listen string // host:port; port 0 means a free port
	Plain  bool   // without TLS also where other hosts reach it, as behind a proxy

	Webhooks string // the file of webhooks; empty means none
}

// WebhooksOf returns the webhooks of a file, with their state in a data directory.
func WebhooksOf(data, file string) gateway.Webhooks {
	return gateway.Webhooks{File: file, Dir: filepath.Join(data, "webhooks")}
}

// plain reports whether the gateway needs no TLS.
func (h HTTP) plain() bool {
	host, _, err := net.SplitHostPort(h.Listen)
	return h.Plain || err == nil && bus.IsLoopback(host)
}

// addGateway adds the gateway to a Garrison. It has no connection of its own: its callers connect through it, as any
// client does.
func addGateway(g *Garrison) error {
	if g.config.HTTP.Listen == "" {
		return nil
	}
	c := gateway.Config{
		Listen: g.config.HTTP.Listen, Plain: g.config.HTTP.Plain, Log: g.logger("gateway"),
		Metrics: g.config.Metrics.Under("gateway"), Issuers: g.authority.PeopleIssuers(),
		Bus: func() (trust.Context, error) {
			ca, err := g.certs.Bundle()
			return trust.Context{URL: g.url, CA: string(ca)}, err
		},
	}
	if file := g.config.HTTP.Webhooks; file != "" {
		c.Webhooks = WebhooksOf(g.config.Data, file)
	}
	if !g.config.HTTP.plain() {
		c.TLS = g.certs.config()
	}
	var err error
	if g.gateway, err = gateway.New(c); err != nil {
		return err
	}
	g.parts = append(g.parts, rungroup.Part{Name: "gateway", Run: func(ctx context.Context) error {
		if err := g.WaitReady(ctx); err != nil {
			return nil // stopped before clients could connect
		}
		return g.gateway.Run(ctx)
	}})
	return nil
}

// HTTPURL returns the address of the gateway, under the host that the bus's address names when it listens at every
// address; empty without a gateway.
func HTTPURL(g *Garrison) string {
	if g.gateway == nil {
		return ""
	}
	at, err := url.Parse(g.gateway.URL())
	bus, busErr := url.Parse(strings.Split(g.url, ",")[0])
	if ip := net.ParseIP(at.Hostname()); err == nil && busErr == nil && ip != nil && ip.IsUnspecified() {
		at.Host = net.JoinHostPort(bus.Hostname(), at.Port())
	}
	return at.String()
}

// savedHTTP returns the address of the gateway for a context; empty for one at which credentials would be sent without
// TLS to another host.
func savedHTTP(g *Garrison) string {
	if h := g.config.HTTP; h.Listen == "" || h.Plain {
		return ""
	}
	return HTTPURL(g)
}
