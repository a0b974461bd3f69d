package console

import "testing"

// A link shows what its command shows; other commands have no link.
func TestACommandLeadsToThePageThatSaysTheSame(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"garrison status":                                "/console/",
		"garrison check":                                 "/console/check",
		"garrison check --on env=prod":                   "/console/check?on=env%3Dprod",
		"garrison server list --presence offline":        "/console/servers?presence=offline",
		"garrison server list --leaked":                  "/console/servers?leaked=1",
		"garrison server list --lobby":                   "/console/lobby",
		"garrison server list --unconfirmed 24h":         "/console/servers?unconfirmed=24h",
		"garrison task list --server web-1":              "/console/tasks?server=web-1",
		"garrison server list --unknown":                 "",
		"garrison server list env=prod":                  "",
		"garrison server list --on 'env in (a, b)'":      "",
		"garrison rollout list --state running,paused":   "",
		"garrison rollout approve 0195d5a0":              "/console/rollouts/0195d5a0",
		"garrison rollout start":                         "",
		"garrison task show 0195d5a0":                    "/console/tasks/0195d5a0",
		"garrison explain NO_SERVERS":                    "/console/codes/NO_SERVERS",
		"garrison explain web-1":                         "",
		"garrison server show SERVER":                    "",
		"garrison server release web-1":                  "",
		"garrison events --id 0195d5a0 --noun rollout":   "",
		"garrison events --noun rollout":                 "/console/events?noun=rollout",
		"garrison server show web-1; then something":     "",
		"executor run":                                   "",
		"garrison image list --state active --untrusted": "/console/images?state=active&untrusted=1",
	} {
		if have := pageOf(command); have != want {
			t.Errorf("%s leads to %q, want %q", command, have, want)
		}
	}
}

func TestOnlyPagesOfTheConsoleAreReturnedTo(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/console/servers?on=env%3Dprod":   "/console/servers?on=env%3Dprod",
		"/console/":                        "/console/",
		"":                                 "/console/",
		"/console":                         "/console/",
		"/console/login":                   "/console/",
		"/openapi.json":                    "/console/",
		"/console/../openapi.json":         "/console/",
		"//evil.example/console/":          "/console/",
		"https://evil.example/console/":    "/console/",
		"/%2fevil.example/../console/x":    "/console/x",
		"/\\evil.example/../console/":      "/console/",
		"javascript:alert(1)//console/":    "/console/",
		"/console/servers/../../elsewhere": "/console/",
	} {
		if have := within(to); have != want {
			t.Errorf("%q leads to %q, want %q", to, have, want)
		}
	}
}
