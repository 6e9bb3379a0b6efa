package controllers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workpull/operator/api/v1alpha1"
)

// A manifest with %s for metadata.name and spec below.
const (
	producerHead = "apiVersion: workpull.dev/v1alpha1\nkind: Producer\n"
	poolHead     = "apiVersion: workpull.dev/v1alpha1\nkind: WorkerPool\n"
	claim        = "{spec: {resources: {requests: {storage: 1Gi}}}}"
	worker       = "template: {spec: {containers: [{name: worker, image: x}]}}"
)

func manifest(t *testing.T, ns, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	object.SetNamespace(ns)
	return object
}

// The API server refuses an invalid manifest with a message that names the
// field and the wish.
func TestInvalidManifestsAreRefusedWithFieldAndWish(t *testing.T) {
	ns := namespace(t)
	producer := func(spec string) string { return producerHead + "metadata: {name: jobs}\nspec: " + spec }
	pool := func(spec string) string { return poolHead + "metadata: {name: pool}\nspec: " + spec }
	long := "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz"
	tests := map[string]struct {
		manifest string
		want     []string
	}{
		"producer: no queue":       {producer("{}"), []string{"spec.queue"}},
		"producer: empty queue":    {producer("{queue: {}}"), []string{"spec.queue", "set exactly one kind of queue"}},
		"producer: long name":      {producerHead + "metadata: {name: " + long + "}\nspec: {queue: {memory: {}}}", []string{"metadata.name must be at most 40"}},
		"producer: name of digits": {producerHead + "metadata: {name: 1st}\nspec: {queue: {memory: {}}}", []string{"metadata.name", "begin with a letter"}},
		"producer: maxPending":     {producer("{queue: {memory: {}}, intake: {maxPending: 0}}"), []string{"spec.intake.maxPending", "between 1 and 1000000"}},
		"producer: maxJobBytes":    {producer("{queue: {memory: {}}, intake: {maxJobBytes: 16777216}}"), []string{"spec.intake.maxJobBytes", "between 1 and 15728640"}},
		"producer: service type":   {producer("{queue: {memory: {}}, intake: {service: {type: ExternalName}}}"), []string{"spec.intake.service.type", "ClusterIP", "LoadBalancer"}},
		"producer: port":           {producer("{queue: {memory: {}}, intake: {service: {port: 70000}}}"), []string{"spec.intake.service.port", "between 1 and 65535"}},
		"producer: interval short": {producer("{queue: {memory: {}}, delivery: {retryInterval: 5ms}}"), []string{"spec.delivery.retryInterval", "between 10ms and 1m"}},
		"producer: interval long":  {producer("{queue: {memory: {}}, delivery: {retryInterval: 2m}}"), []string{"spec.delivery.retryInterval", "between 10ms and 1m"}},
		"producer: interval word":  {producer("{queue: {memory: {}}, delivery: {retryInterval: often}}"), []string{"spec.delivery.retryInterval", "such as 500ms"}},
		"producer: interval days":  {producer("{queue: {memory: {}}, delivery: {retryInterval: 1d}}"), []string{"spec.delivery.retryInterval", "such as 500ms"}},

		"producer: two queues":      {producer("{queue: {memory: {}, embedded: {ephemeral: true}}}"), []string{"spec.queue", "set exactly one kind of queue"}},
		"producer: no volume":       {producer("{queue: {embedded: {}}}"), []string{"spec.queue.embedded", "either volumeClaimTemplate or ephemeral"}},
		"producer: ephemeral false": {producer("{queue: {embedded: {ephemeral: false}}}"), []string{"spec.queue.embedded", "either volumeClaimTemplate or ephemeral"}},
		"producer: two volumes":     {producer("{queue: {embedded: {ephemeral: true, volumeClaimTemplate: " + claim + "}}}"), []string{"spec.queue.embedded", "either volumeClaimTemplate or ephemeral"}},
		"producer: no size":         {producer("{queue: {embedded: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}}"), []string{"spec.queue.embedded.volumeClaimTemplate.spec.resources", "Required value"}},
		"producer: small volume":    {producer("{queue: {embedded: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 0}}}}}}}"), []string{"requests.storage must be at least 1Mi"}},
		"producer: access mode":     {producer("{queue: {embedded: {volumeClaimTemplate: {spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}}}}"), []string{"accessModes", "ReadWriteOncePod"}},
		"producer: retained memory": {producer("{queue: {embedded: {ephemeral: true, persistentVolumeClaimRetentionPolicy: {}}}}"), []string{"persistentVolumeClaimRetentionPolicy needs volumeClaimTemplate"}},
		"producer: retention":       {producer("{queue: {embedded: {volumeClaimTemplate: " + claim + ", persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep}}}}"), []string{"whenDeleted", "Retain", "Delete"}},
		"producer: no secret":       {producer("{queue: {postgres: {}}}"), []string{"spec.queue.postgres.urlSecretKeyRef"}},
		"producer: secret's name":   {producer("{queue: {postgres: {urlSecretKeyRef: {name: '', key: url}}}}"), []string{"urlSecretKeyRef.name must be the name of a Secret"}},
		"producer: secret's key":    {producer("{queue: {postgres: {urlSecretKeyRef: {name: db, key: a b}}}}"), []string{"urlSecretKeyRef.key must be the name of a key"}},
		"producer: standby":         {producer("{replicas: 2, queue: {memory: {}}}"), []string{"replicas above 1 need queue.postgres"}},
		"producer: no replica":      {producer("{replicas: 0, queue: {memory: {}}}"), []string{"spec.replicas", "between 1 and 10"}},
		"producer: attempts":        {producer("{queue: {memory: {}}, delivery: {maxAttempts: 0}}"), []string{"spec.delivery.maxAttempts", "between 1 and 1000"}},
		"producer: backoff":         {producer("{queue: {memory: {}}, delivery: {backoff: {initial: 0s}}}"), []string{"backoff.initial", "between 1ms and 24h"}},
		"producer: backoff max":     {producer("{queue: {memory: {}}, delivery: {backoff: {max: 25h}}}"), []string{"backoff.max", "between 1ms and 24h"}},
		"producer: backoff word":    {producer("{queue: {memory: {}}, delivery: {backoff: {max: later}}}"), []string{"backoff.max", "such as 1m"}},
		"producer: backoff shrinks": {producer("{queue: {memory: {}}, delivery: {backoff: {initial: 2m}}}"), []string{"backoff.max must not be below backoff.initial"}},
		"producer: window":          {producer("{queue: {memory: {}}, delivery: {deduplicationWindow: 169h}}"), []string{"deduplicationWindow", "between 0s and 168h"}},
		"producer: queue attempts":  {producer("{queue: {memory: {}}, delivery: {queueRetry: {attempts: 0}}}"), []string{"queueRetry.attempts", "between 1 and 100"}},
		"producer: queue backoff":   {producer("{queue: {memory: {}}, delivery: {queueRetry: {backoff: 2m}}}"), []string{"queueRetry.backoff", "between 1ms and 1m"}},

		"pool: no producer":    {pool("{" + worker + "}"), []string{"spec.producerRef"}},
		"pool: empty producer": {pool("{producerRef: {name: ''}, " + worker + "}"), []string{"spec.producerRef.name", "1 to 40"}},
		"pool: long name":      {poolHead + "metadata: {name: " + long + "}\nspec: {producerRef: {name: jobs}, " + worker + "}", []string{"metadata.name must be at most 50"}},
		"pool: replicas":       {pool("{producerRef: {name: jobs}, replicas: -1, " + worker + "}"), []string{"spec.replicas", "between 0 and 1000"}},
		"pool: many replicas":  {pool("{producerRef: {name: jobs}, replicas: 1001, " + worker + "}"), []string{"spec.replicas", "between 0 and 1000"}},
		"pool: concurrency":    {pool("{producerRef: {name: jobs}, worker: {concurrency: 0}, " + worker + "}"), []string{"spec.worker.concurrency", "between 1 and 100"}},
		"pool: window":         {pool("{producerRef: {name: jobs}, worker: {flowControlWindow: 10001}, " + worker + "}"), []string{"spec.worker.flowControlWindow", "between 1 and 10000"}},
		"pool: membership":     {pool("{producerRef: {name: jobs}, worker: {membership: Guest}, " + worker + "}"), []string{"spec.worker.membership", "Attached", "Member"}},
		"pool: drain too long": {pool("{producerRef: {name: jobs}, drain: {timeout: 25h}, " + worker + "}"), []string{"spec.drain.timeout", "between 0s and 24h"}},
		"pool: drain huge":     {pool("{producerRef: {name: jobs}, drain: {timeout: 999999h999999h}, " + worker + "}"), []string{"spec.drain.timeout", "between 0s and 24h"}},
		"pool: drain word":     {pool("{producerRef: {name: jobs}, drain: {timeout: later}, " + worker + "}"), []string{"spec.drain.timeout", "such as 30s"}},
		"pool: history":        {pool("{producerRef: {name: jobs}, revisionHistoryLimit: -1, " + worker + "}"), []string{"spec.revisionHistoryLimit", "between 0 and 1000"}},
		"pool: start-up":       {pool("{producerRef: {name: jobs}, startupDeadlineSeconds: 0, " + worker + "}"), []string{"spec.startupDeadlineSeconds", "between 1 and 86400"}},
		"pool: no template":    {pool("{producerRef: {name: jobs}}"), []string{"spec.template"}},
		"pool: no worker":      {pool("{producerRef: {name: jobs}, template: {spec: {containers: [{name: main, image: x}]}}}"), []string{"spec.template", `a container named "worker"`}},
		"pool: grace period":   {pool("{producerRef: {name: jobs}, template: {spec: {terminationGracePeriodSeconds: 9, containers: [{name: worker, image: x}]}}}"), []string{"template.spec.terminationGracePeriodSeconds", "drain.timeout"}},
		"pool: restart policy": {pool("{producerRef: {name: jobs}, template: {spec: {restartPolicy: Never, containers: [{name: worker, image: x}]}}}"), []string{"template.spec.restartPolicy", "Always"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := api.Create(t.Context(), manifest(t, ns, tt.manifest), client.DryRunAll)
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestImmutableFieldsAreRefusedWithFieldAndWish(t *testing.T) {
	ns := namespace(t)
	pool := newPool(ns, "pool", "jobs", 1)
	create(t, pool)
	pool.Spec.ProducerRef.Name = "others"
	err := api.Update(t.Context(), pool)
	require.ErrorContains(t, err, "spec.producerRef")
	require.ErrorContains(t, err, "immutable")
}

// The kind of a queue cannot be changed, whatever into whatever; of a volume
// only the size can, and only upwards.
func TestQueuesAreImmutable(t *testing.T) {
	ns := namespace(t)
	volume := func(spec string) string { return "{embedded: {volumeClaimTemplate: {spec: " + spec + "}}}" }
	queues := map[string]string{
		"memory":    "{memory: {}}",
		"volume":    volume("{resources: {requests: {storage: 1Gi}}}"),
		"ephemeral": "{embedded: {ephemeral: true}}",
		"postgres":  "{postgres: {urlSecretKeyRef: {name: db, key: url}}}",
	}
	change := func(name, queue string) error {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ProducerKind))
		require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, object))
		var value map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(queue), &value))
		require.NoError(t, unstructured.SetNestedMap(object.Object, value, "spec", "queue"))
		return api.Update(t.Context(), object, client.DryRunAll)
	}
	for from, queue := range queues {
		create(t, manifest(t, ns, producerHead+"metadata: {name: "+from+"}\nspec: {queue: "+queue+"}"))
	}
	for from := range queues {
		for to, queue := range queues {
			err := change(from, queue)
			switch both := from + " " + to; {
			case from == to:
				require.NoError(t, err)
			case both == "volume ephemeral" || both == "ephemeral volume":
				require.ErrorContains(t, err, "volumeClaimTemplate and ephemeral cannot replace each other", both)
			default:
				require.ErrorContains(t, err, "the kind of queue is immutable", both)
			}
		}
	}
	require.NoError(t, change("postgres", "{postgres: {urlSecretKeyRef: {name: other, key: url}}}"), "the database may move")
	require.NoError(t, change("volume", volume("{resources: {requests: {storage: 1025Mi}}}")))
	require.NoError(t, change("volume", volume("{resources: {requests: {storage: 1024Mi}}}")), "the same size")
	require.ErrorContains(t, change("volume", volume("{resources: {requests: {storage: 1023Mi}}}")), "can grow and not shrink")
	require.ErrorContains(t, change("volume", volume("{resources: {requests: {storage: 1048576}}}")), "can grow and not shrink")
	for _, other := range []string{
		"{storageClassName: fast, resources: {requests: {storage: 1Gi}}}",
		"{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
		"{volumeName: v, resources: {requests: {storage: 1Gi}}}",
		"{dataSource: {kind: PersistentVolumeClaim, name: c}, resources: {requests: {storage: 1Gi}}}",
	} {
		require.ErrorContains(t, change("volume", volume(other)), "volumeClaimTemplate.spec is immutable but for", other)
	}
}

func TestSchemaDefaults(t *testing.T) {
	ns := namespace(t)
	producer := manifest(t, ns, producerHead+"metadata: {name: jobs}\nspec: {queue: {memory: {}}}")
	pool := manifest(t, ns, poolHead+"metadata: {name: pool}\nspec: {producerRef: {name: jobs}, "+worker+"}")
	create(t, producer, pool)

	var p v1alpha1.Producer
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(producer), &p))
	stored := p.DeepCopy()
	p.SetDefaults()
	require.Equal(t, stored.Spec, p.Spec, "the schema sets every default that the code knows")
	require.Equal(t, v1alpha1.DefaultMaxPending, p.Spec.Intake.MaxPending)

	var w v1alpha1.WorkerPool
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(pool), &w))
	storedPool := w.DeepCopy()
	w.SetDefaults()
	require.Equal(t, storedPool.Spec, w.Spec, "the schema sets every default that the code knows")
	require.Equal(t, ptr.To[int32](1), w.Spec.Replicas)
}

// Labels of a template are kept, unknown fields are not.
func TestTemplateMetadataIsKept(t *testing.T) {
	ns := namespace(t)
	pool := manifest(t, ns, poolHead+"metadata: {name: pool}\nspec: {producerRef: {name: jobs}, "+
		"template: {metadata: {labels: {team: media}}, spec: {containers: [{name: worker, image: x}]}}}")
	create(t, pool)
	var w v1alpha1.WorkerPool
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(pool), &w))
	require.Equal(t, map[string]string{"team": "media"}, w.Spec.Template.Labels)
}

// What README shows is accepted as it stands.
func TestREADMEIsAccepted(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```yaml\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	documents := strings.Split(block, "\n---\n")
	require.Len(t, documents, 2)
	ns := namespace(t)
	for _, document := range documents {
		object := manifest(t, ns, document)
		require.NoError(t, client.NewNamespacedClient(api, ns).Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")), document)
	}
}

// The examples are accepted as they stand.
func TestExamplesAreAccepted(t *testing.T) {
	ns := namespace(t)
	files, err := filepath.Glob("../examples/queues/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, document := range strings.Split(string(text), "\n---\n") {
			object := manifest(t, ns, document)
			require.NoError(t, client.NewNamespacedClient(api, ns).Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")), file)
		}
	}
}
