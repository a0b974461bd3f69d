package auth

// records are what is kept as a record: their commands put, delete and list records.
var records = []string{"agent", "app", "env", "labelrule", "label-rule", "hold"}

// commands are the commands that no action is called like, with the actions that they ask for.
var commands = commandActions()

func commandActions() map[string][]string {
	out := map[string][]string{
		"apply": {"put record"}, "block": {"add block"}, "unblock": {"delete record"},
		"block list": {"list record"}, "bus": {"show bus"}, "env default": {"set default"},
		"events": {"read fact"}, "explain": {"show server"}, "exposed": {"list exposed"},
		"export": {"list record"}, "hold": {"put record"},
		"image export": {"show image", "show chunk"}, "image import": {"create image", "put chunk"},
		"instance list": {"list instance"}, "instance report": {"report external"}, "logs": {"read log"},
		"server accept": {"accept lobby"}, "server reject": {"reject lobby"}, "rollout start": {"rollout"},
		"restore": {"show restore-status"}, "server clean": {"record clean-up"}, "status": {"count server"},
		"task show": {"show task"}, "unhold": {"delete record"}, "versions": {"list writer"},
		"channel remove": {"demote image"},
		"image prune":    {"delete image"}, "import ansible": {"enroll server", "put record"},
		"import triton": {"enroll server", "put record"}, "instance adopt": {"adopt"}, "instance release": {"release"},
		"instance show": {"list instance"}, "label-rule set": {"put record"}, "label-rule unset": {"delete record"},
		"server refresh": {"refresh"}, "server reinstall": {"reinstall"},
		"server set":     {"update server", "move server"},
		"source publish": {"list image", "show image", "show chunk"},
		"source sync":    {"list source", "create image", "put chunk", "record sync"},
		"watch":          {"show intent-progress"}, "cancel": {"withdraw intent", "cancel task"},
		"env diff": {"list default"}, "channel diff": {"list channel", "list image"},
	}
	for _, noun := range records {
		out[noun+" create"], out[noun+" update"] = []string{"put record"}, []string{"put record"}
		out[noun+" delete"] = []string{"delete record"}
		out[noun+" list"], out[noun+" show"] = []string{"list record"}, []string{"list record"}
	}
	return out
}
