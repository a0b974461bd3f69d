package sessions_test

import "github.com/garrison-fleet/garrison/e2e/pages"

// machine are the paths and addresses of pages, and what stands for them below W.
var machine = []string{
	"/usr/local/bin/", "$W/usr/local/bin/", "/usr/lib/", "$W/usr/lib/", "/etc/", "$W/etc/", "/var/", "$W/var/",
	"/root/", "$W/root/", "/run/", "$W/run/", "4222", "$PORT", "garrison.example.com", "localhost", "18080", "$PORT1",
}

// sessions are the pages whose blocks are run. Each starts a Garrison of its own.
var sessions = map[string]pages.Session{
	"deploy/docs/running.md": {
		Before: "ln -s $BIN bin && ln -s $REPOSITORY/deploy deploy\n",
		Enter: map[string]string{
			"Back up": "beacon 1.0.0 && beacon 1.1.0 && garrison install beacon@1.0.0 --on web-1\n",
			// What happens after the backup: the server is ahead of what is restored. Its executor stands still until
			// the status was read: on a busy machine it would have reported by then. On a very busy one it is offline.
			"Restore": "garrison up beacon@1.1.0 --on web-1 --yes\n" +
				"kill -STOP $(cat $pids/garrison-executor)\n",
			"After a restore": "garrison restore status 2>&1 | " +
				"grep -E 'possibly ahead too: 1 server |web-1 .*offline'\n" +
				"kill -CONT $(cat $pids/garrison-executor)\n" +
				"until_ok ahead web-1\n",
			"Move": "garrison instance list --no-headers --columns found | grep -x 1.1.0\n" +
				"garrison server list --columns state | grep -q ahead && exit 1 || true\n",
			"Upgrade":               "until_ok online web-1\n",
			"Certificates and keys": "garrison instance list --no-headers --columns found | grep -x 1.1.0\n",
		},
		After:   "if garrison --context ann.json server list; then exit 1; fi\n",
		Replace: machine,
	},
}
