package charts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestOperatorHasTheGeneratedRules(t *testing.T) {
	rendered := mustTemplate(t, operatorChart, "")
	require.Equal(t, generatedRules(t), named[*rbacv1.ClusterRole](t, rendered, "workpull-operator").Rules)

	binding := named[*rbacv1.ClusterRoleBinding](t, rendered, "workpull-operator")
	require.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "workpull-operator"}, binding.RoleRef)
	require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "workpull-operator", Namespace: "system"}}, binding.Subjects)
	require.Equal(t, "workpull-operator", deployment(t, rendered).Spec.Template.Spec.ServiceAccountName)
	named[*corev1.ServiceAccount](t, rendered, "workpull-operator")
}

func TestNoRuleHasAWildcard(t *testing.T) {
	rendered := mustTemplate(t, operatorChart, "")
	for _, role := range all[*rbacv1.ClusterRole](rendered) {
		for _, rule := range role.Rules {
			for _, values := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				require.NotContains(t, values, "*", "%s: %v", role.Name, rule)
			}
		}
	}
}

func TestWatchNamespacesGivesRolesInThemAndNoClusterRole(t *testing.T) {
	rendered := mustTemplate(t, operatorChart, "watchNamespaces: [blue, green]")

	require.Empty(t, all[*rbacv1.ClusterRoleBinding](rendered), "nothing is granted in all namespaces")
	for _, role := range all[*rbacv1.ClusterRole](rendered) {
		require.Equal(t, "true", role.Labels["rbac.authorization.k8s.io/aggregate-to-admin"], "%s is for users", role.Name)
	}

	want := generatedRules(t)
	for _, rule := range want {
		require.NotContains(t, rule.Resources, "nodes", "a Role cannot give what is not in a namespace")
	}
	var namespaces []string
	for _, role := range all[*rbacv1.Role](rendered) {
		if role.Name != "workpull-operator" {
			continue
		}
		namespaces = append(namespaces, role.Namespace)
		require.Equal(t, want, role.Rules)
	}
	require.Equal(t, []string{"blue", "green"}, namespaces)
	for _, binding := range all[*rbacv1.RoleBinding](rendered) {
		require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "workpull-operator", Namespace: "system"}}, binding.Subjects)
	}
	require.Contains(t, deployment(t, rendered).Spec.Template.Spec.Containers[0].Args, "--watch-namespaces=blue,green")
}

func TestImageReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for name, test := range map[string]struct{ values, want string }{
		"default":             {``, "workpull/operator:v0.1.0"},
		"registry":            {`{registry: localhost}`, "localhost/workpull/operator:v0.1.0"},
		"registry with port":  {`{registry: "example.com:5000"}`, "example.com:5000/workpull/operator:v0.1.0"},
		"registry and folder": {`{registry: example.com/mirror/}`, "example.com/mirror/workpull/operator:v0.1.0"},
		"repository and tag":  {`{repository: wp, tag: dev}`, "wp:dev"},
		"digest wins":         {`{tag: dev, digest: "` + digest + `"}`, "workpull/operator@" + digest},
	} {
		t.Run(name, func(t *testing.T) {
			values := ""
			if test.values != "" {
				values = "image: " + test.values + "\nworkpullImage: " + test.values
			}
			container := deployment(t, mustTemplate(t, operatorChart, values)).Spec.Template.Spec.Containers[0]
			require.Equal(t, test.want, container.Image)
			stock := strings.Replace(test.want, "workpull/operator", "workpull/workpull", 1)
			require.Contains(t, container.Args, "--producer-image="+stock)
		})
	}
}

func TestPodMeetsTheRestrictedPolicy(t *testing.T) {
	pod := deployment(t, mustTemplate(t, operatorChart, "")).Spec.Template.Spec
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.Len(t, pod.Containers, 1)
	security := pod.Containers[0].SecurityContext
	require.False(t, *security.AllowPrivilegeEscalation)
	require.True(t, *security.ReadOnlyRootFilesystem)
	require.Equal(t, []corev1.Capability{"ALL"}, security.Capabilities.Drop)
}

func TestValuesReachThePod(t *testing.T) {
	rendered := mustTemplate(t, operatorChart, `
image: {pullPolicy: Never}
workpullImage: {pullPolicy: Always}
imagePullSecrets: [{name: pull}]
replicas: 2
nodeSelector: {disk: fast}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
priorityClassName: system-cluster-critical
podAnnotations: {note: one}
podLabels: {team: blue}
extraArgs: [--zap-log-level=debug]
resources: {limits: {memory: 1Gi}}
metrics: {port: 9090}
serviceAccount: {create: false, name: mine}
`)
	workload := deployment(t, rendered)
	require.EqualValues(t, 2, *workload.Spec.Replicas)
	template := workload.Spec.Template
	require.Equal(t, "one", template.Annotations["note"])
	require.Equal(t, "blue", template.Labels["team"])
	pod := template.Spec
	require.Equal(t, []corev1.LocalObjectReference{{Name: "pull"}}, pod.ImagePullSecrets)
	require.Equal(t, map[string]string{"disk": "fast"}, pod.NodeSelector)
	require.Equal(t, []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}, pod.Tolerations)
	require.NotNil(t, pod.Affinity.NodeAffinity)
	require.Equal(t, "system-cluster-critical", pod.PriorityClassName)
	require.Equal(t, "mine", pod.ServiceAccountName)
	container := pod.Containers[0]
	require.Equal(t, corev1.PullNever, container.ImagePullPolicy)
	require.Contains(t, container.Args, "--image-pull-policy=Always")
	require.Contains(t, container.Args, "--zap-log-level=debug")
	require.Contains(t, container.Args, "--metrics-bind-address=:9090")
	require.Equal(t, "1Gi", container.Resources.Limits.Memory().String())

	require.Empty(t, all[*corev1.ServiceAccount](rendered))
	require.EqualValues(t, 9090, named[*corev1.Service](t, rendered, "workpull-operator-metrics").Spec.Ports[0].Port)
	for _, binding := range all[*rbacv1.ClusterRoleBinding](rendered) {
		require.Equal(t, "mine", binding.Subjects[0].Name)
	}
}

func TestPartsCanBeLeftOut(t *testing.T) {
	rendered := mustTemplate(t, operatorChart, `
leaderElection: false
metrics: {enabled: false}
userRoles: {create: false}
`)
	require.Empty(t, all[*rbacv1.Role](rendered), "no role for an election")
	require.Empty(t, all[*corev1.Service](rendered))
	require.Len(t, all[*rbacv1.ClusterRole](rendered), 1)
	args := deployment(t, rendered).Spec.Template.Spec.Containers[0].Args
	require.Contains(t, args, "--leader-elect=false")
	require.Contains(t, args, "--metrics-bind-address=0")
	require.EqualValues(t, "Recreate", deployment(t, rendered).Spec.Strategy.Type)
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"unknown value":             {"replica: 2", "replica"},
		"unknown nested value":      {"image: {repo: x}", "repo"},
		"pull policy":               {"image: {pullPolicy: Sometimes}", "pullPolicy"},
		"image with tag":            {"image: {repository: 'a:b'}", "repository"},
		"short digest":              {"image: {digest: 'sha256:abc'}", "digest"},
		"replicas":                  {"replicas: -1", "replicas"},
		"replicas as text":          {"replicas: two", "replicas"},
		"namespace":                 {"watchNamespaces: [Blue_]", "watchNamespaces"},
		"same namespace twice":      {"watchNamespaces: [a, a]", "watchNamespaces"},
		"metrics on the probe port": {"metrics: {port: 8081}", "8081 serves the probes"},
		"many without an election":  {"{replicas: 2, leaderElection: false}", "more than one needs leaderElection: true"},
		"no account":                {"serviceAccount: {create: false}", "serviceAccount.name must be set"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := helmTemplate(t, operatorChart, test.values)
			require.ErrorContains(t, err, test.want)
		})
	}
}
