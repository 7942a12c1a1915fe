// The images of the nodes, and the files of deploy/ that put them up. The stack of a Swarm is in
// swarm.test.mjs.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { docker, noEngine } from './lib/docker.mjs'
import { request } from './lib/http.mjs'
import { build, root, tempDir, until } from './lib/node.mjs'

// With the plugins of the build.
function assertSound(text, name) {
  const file = path.join(tempDir(), name)
  writeFileSync(file, `plugin_dir: ${path.join(build, 'plugins')}\n${text}`, { mode: 0o600 })
  const r = spawnSync(path.join(build, 'fnd'), ['check', '--strict', '--config', file], { encoding: 'utf8' })
  assert.equal(r.status, 0, `${name}: ${r.stderr}`)
}

describe('the images of the nodes', { skip: noEngine }, () => {
  it('are small and sound, with a health check, and without root where a node needs no rights', () => {
    execFileSync(path.join(root, 'images/build'), { stdio: ['ignore', 'ignore', 'inherit'] })
    for (const [node, user] of Object.entries({ lb: '1000:1000', api: '1000:1000', npm: '1000:1000', runner: '', full: '' })) {
      const [image] = JSON.parse(docker('image', 'inspect', `fnd/${node}:latest`))
      assert.equal(image.Config.User, user, node)
      assert.equal(image.Config.Healthcheck.Test[1], '/usr/bin/fnd', node)
      assert.ok(image.Size < 120e6, `${node}: ${image.Size} bytes`)
      docker('run', '--rm', '--entrypoint', '/usr/bin/fnd', `fnd/${node}:latest`, 'check', '--strict', '--config', '/etc/fnd/fn.yaml')
    }
  })

  it('a full node in a container is healthy, takes a function and answers', async () => {
    const name = `fnd-e2e-full-${process.pid}`
    docker('run', '--detach', '--rm', '--name', name, 'fnd/full:latest')
    try {
      const host = docker('inspect', '-f', '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}', name)
      const apps = path.join(tempDir(), 'apps.yaml')
      writeFileSync(apps, 'apps: [{ name: demo, functions: [{ name: hello, image: fnd/hello, memory: 64, triggers: [{ name: hello, source: /hello }] }] }]')
      await until('it takes the function', () => spawnSync(path.join(build, 'fnd'), ['api', '--url', `http://${host}:8080`, 'import', apps]).status === 0)
      const answer = await request(`http://${host}:8080/t/demo/hello`, { method: 'POST', body: '{"name":"image"}' })
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.text, /Hello image/)
      await until('it is healthy', () => docker('inspect', '-f', '{{.State.Health.Status}}', name) === 'healthy', 20_000)
    } finally {
      docker('rm', '--force', name)
    }
  })

  it('compose and stack files are what the client takes', () => {
    for (const file of ['compose.yaml', 'stack.yaml']) {
      const r = spawnSync('docker', ['stack', 'config', '-c', path.join(root, 'deploy', file)], { encoding: 'utf8' })
      assert.equal(r.status, 0, `${file}: ${r.stderr}`)
    }
  })
})

describe('manifests for Kubernetes', () => {
  it('fit together, and their configurations are sound', () => {
    const folder = tempDir()
    const r = spawnSync('python3', [path.join(root, 'tests/e2e/lib/manifests.py'), path.join(root, 'deploy/kubernetes/fnd.yaml'), folder], { encoding: 'utf8' })
    assert.equal(r.status, 0, r.stdout + r.stderr)
    const files = readdirSync(folder)
    assert.deepEqual(files.sort(), ['lb.yaml', 'npm.yaml', 'runner.yaml'])
    for (const f of files) assertSound(readFileSync(path.join(folder, f), 'utf8'), f)
  })
})
